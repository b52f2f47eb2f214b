"""The functions of `pyspark.sql.functions`, for programs that import all of them at once."""

from __future__ import annotations

from setpoint.lint.vocabulary import vocabulary

FUNCTIONS = vocabulary(
    "abs acos add_months aggregate any_value approx_count_distinct array array_contains",
    "array_distinct array_except array_intersect array_join array_max array_min",
    "array_position array_remove array_repeat array_sort array_union arrays_overlap",
    "arrays_zip asc ascii asin atan avg base64 bin bitwise_not broadcast bround cbrt ceil",
    "coalesce col collect_list collect_set column concat concat_ws conv corr cos count",
    "count_distinct countDistinct covar_pop crc32 create_map cume_dist curdate current_date",
    "current_timestamp current_user date_add date_diff date_format date_sub date_trunc",
    "datediff dayofmonth dayofweek dayofyear decode degrees dense_rank desc element_at encode",
    "exists exp explode explode_outer expm1 expr factorial filter first first_value flatten",
    "floor forall format_number format_string from_csv from_json from_unixtime",
    "from_utc_timestamp get_json_object greatest grouping hash hex hour hypot ifnull initcap",
    "input_file_name instr isnan isnull json_tuple kurtosis lag last last_day lead least",
    "length levenshtein lit localtimestamp locate log log10 log1p log2 lower lpad ltrim",
    "make_date map_concat map_from_arrays map_from_entries map_keys map_values max max_by md5",
    "mean min min_by minute monotonically_increasing_id month months_between nanvl next_day",
    "now ntile nth_value nvl overlay percent_rank percentile_approx posexplode pow quarter",
    "radians rand randn rank regexp_extract regexp_replace repeat reverse rint round",
    "row_number rpad rtrim schema_of_json second sequence sha1 sha2 shuffle sign sin size",
    "skewness slice sort_array soundex split sqrt stddev struct substring substring_index sum",
    "sumDistinct sum_distinct tan timestamp_seconds to_csv to_date to_json to_timestamp",
    "to_utc_timestamp transform translate trim trunc typedLit udf unbase64 unhex",
    "unix_timestamp upper uuid var_pop variance weekofyear when window xxhash64 year zip_with",
)
