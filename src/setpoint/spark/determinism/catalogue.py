"""Spark's functions by what they depend on."""

from __future__ import annotations

CLOCK = frozenset(
    ["current_timestamp", "now", "localtimestamp", "current_date", "curdate", "current_time"]
)
RANDOM = frozenset(["rand", "random", "randn", "uuid", "randstr", "uniform", "shuffle"])
GENERATED = frozenset(["monotonically_increasing_id", "distributed_sequence_id"])
PLACEMENT = frozenset(
    ["spark_partition_id", "input_file_name", "input_file_block_start", "input_file_block_length"]
)
SESSION = frozenset(
    [
        "current_user",
        "session_user",
        "user",
        "current_schema",
        "current_database",
        "current_catalog",
        "current_timezone",
        "version",
    ]
)
# Methods of Java, about which nothing is known.
REFLECTION = frozenset(["reflect", "java_method", "try_reflect"])
KIND_OF = {
    **dict.fromkeys(CLOCK, "clock"),
    **dict.fromkeys(RANDOM, "random"),
    **dict.fromkeys(GENERATED, "generated_id"),
    **dict.fromkeys(PLACEMENT, "placement"),
    **dict.fromkeys(SESSION, "session"),
    **dict.fromkeys(REFLECTION, "udf"),
}
# Texts that a cast turns into the time of the run.
MOMENTS = frozenset(("now", "today", "yesterday", "tomorrow"))
TO_TIME = frozenset(
    [
        "cast",
        "try_cast",
        "to_date",
        "to_timestamp",
        "try_to_timestamp",
        "to_timestamp_ntz",
        "to_timestamp_ltz",
    ]
)

# Aggregates that take the first row that comes, or an order of rows.
PICKS = frozenset(["first", "first_value", "last", "last_value", "any_value"])
COLLECTS = frozenset(["collect_list", "array_agg", "collect_set"])
JOINS_TEXT = frozenset(["listagg", "string_agg"])
EXTREMES = frozenset(["max_by", "min_by"])
APPROXIMATE = frozenset(
    [
        "percentile_approx",
        "approx_percentile",
        "approx_top_k",
        "approx_top_k_accumulate",
        "histogram_numeric",
        "kll_sketch_agg_bigint",
        "kll_sketch_agg_float",
        "kll_sketch_agg_double",
    ]
)
FLOAT_SUMS = frozenset(
    [
        "sum",
        "try_sum",
        "avg",
        "try_avg",
        "mean",
        "stddev",
        "std",
        "stddev_samp",
        "stddev_pop",
        "variance",
        "var_samp",
        "var_pop",
        "skewness",
        "kurtosis",
        "corr",
        "covar_pop",
        "covar_samp",
        "cov_population",
        "cov_sample",
        "regr_slope",
        "regr_intercept",
        "regr_r2",
        "regr_sxx",
        "regr_sxy",
        "regr_syy",
        "regr_avgx",
        "regr_avgy",
        "product",
    ]
)

# Aggregates for which only the values count, in whatever rows they are.
OF_VALUES = FLOAT_SUMS | {
    "count",
    "count_if",
    "min",
    "max",
    "bool_and",
    "bool_or",
    "every",
    "some",
    "any",
    "bit_and",
    "bit_or",
    "bit_xor",
}
# Functions of floating point numbers that give something else, and the words of comparisons.
NOT_FLOAT = frozenset(
    [
        "equal_to",
        "equal_null_safe",
        "less_than",
        "less_than_or_equal",
        "greater_than",
        "greater_than_or_equal",
        "and",
        "or",
        "not",
        "in",
        "in_set",
        "is_null",
        "is_not_null",
        "isnotnull",
        "is_na_n",
        "isnan",
        "between",
        "floor",
        "ceil",
        "ceiling",
        "integral_divide",
        "count",
        "count_if",
        "length",
        "char_length",
        "size",
        "cardinality",
        "array_size",
        "array_contains",
        "array_position",
        "arrays_overlap",
        "exists",
        "forall",
        "array_exists",
        "array_for_all",
        "hash",
        "xxhash64",
        "datediff",
        "date_diff",
        "width_bucket",
    ]
)
OPERATORS = frozenset(
    ["=", "<=>", "<", ">", "<=", ">=", "AND", "OR", "NOT", "IN", "LIKE", "RLIKE", "div"]
)

# Window functions whose answer for a row depends on its place among rows that tie.
BY_PLACE = frozenset(["row_number", "ntile", "lag", "lead"])
BY_VALUE = frozenset(["rank", "dense_rank", "percent_rank", "cume_dist"])

# What makes the order of an array not count, and what leaves it what it is.
ORDERLESS = frozenset(
    [
        "sort_array",
        "array_sort",
        "size",
        "cardinality",
        "array_size",
        "array_max",
        "array_min",
        "array_contains",
        "arrays_overlap",
        "exists",
        "forall",
        "array_exists",
        "array_for_all",
    ]
)
FOLDS = frozenset(["aggregate", "array_aggregate", "reduce"])
KEEPS_ARRAY = frozenset(
    [
        "filter",
        "transform",
        "array_distinct",
        "array_remove",
        "array_compact",
        "array_union",
        "array_except",
        "array_intersect",
        "flatten",
        "concat",
        "coalesce",
        "cast",
        "array_filter",
        "array_transform",
    ]
)
EXPLODES = frozenset(["explode", "explode_outer", "inline", "inline_outer"])

# Whoever orders by one of these orders by everything that is in it.
IDENTIFIES = frozenset(
    [
        "xxhash64",
        "hash",
        "sha",
        "sha1",
        "sha2",
        "md5",
        "struct",
        "named_struct",
        "to_json",
        "array",
        "create_array",
    ]
)
