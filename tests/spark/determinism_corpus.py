"""Small plans with what the determinism check must say about each, and nothing else.

A case is written once, for whichever kind of session the table `t` belongs to.
"""

from __future__ import annotations

import datetime as dt
import random
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import setpoint


@dataclass(frozen=True)
class Tables:
    """The inputs of the corpus in one session, with the functions that belong to it.

    `orders` has order_id int, customer string, amount double, cents bigint, price decimal, placed
    timestamp, d date; `customers` has customer and name; `items` has structs and arrays; `files` is
    a Parquet folder.
    """

    spark: Any
    orders: Any
    customers: Any
    items: Any
    files: Any
    F: Any
    W: Any
    classic: bool

    def sql(self, text: str) -> Any:
        return self.spark.sql(text)


Build = Callable[[Tables], Any]


@dataclass(frozen=True)
class Case:
    name: str
    build: Build
    expected: frozenset[str]
    keys: tuple[str, ...] = ()


CASES: list[Case] = []
ALL = ("order_id", "customer", "amount", "cents", "price", "placed", "d")


def case(*expected: str, keys: tuple[str, ...] = ()) -> Callable[[Build], Build]:
    def add(build: Build) -> Build:
        CASES.append(Case(build.__name__, build, frozenset(expected), keys))
        return build

    return add


def sql(name: str, text: str, *expected: str, keys: tuple[str, ...] = ()) -> None:
    CASES.append(Case(f"sql_{name}", lambda t: t.sql(text), frozenset(expected), keys))


def stamped(value):
    return value + int(time.time())


def doubled(value):
    return value * 2


# --- the clock


@case("clock:loaded_at")
def clock_column(t):
    return t.orders.withColumn("loaded_at", t.F.current_timestamp())


@case("clock:age")
def clock_inside_an_expression(t):
    return t.orders.select("order_id", t.F.datediff(t.F.current_date(), "d").alias("age"))


@case("clock:(rows)")
def clock_in_a_filter(t):
    return t.orders.where(t.F.col("d") >= t.F.date_sub(t.F.current_date(), 1))


@case("clock:renamed")
def clock_through_projections(t):
    made = t.orders.withColumn("a", t.F.now()).withColumn("b", t.F.date_format("a", "yyyy"))
    return made.select("order_id", t.F.upper("b").alias("renamed"))


@case("clock:newest")
def clock_through_an_aggregate(t):
    made = t.orders.withColumn("seen", t.F.current_timestamp())
    return made.groupBy("customer").agg(t.F.max("seen").alias("newest"))


@case("clock:seen")
def clock_through_a_join(t):
    right = t.customers.withColumn("seen", t.F.localtimestamp())
    return t.orders.join(right, "customer").select("order_id", "seen")


@case("clock:at")
def clock_in_one_side_of_a_union(t):
    one = t.orders.select("order_id", t.F.col("placed").alias("at"))
    return one.union(t.orders.select("order_id", t.F.current_timestamp().alias("at")))


@case("clock:u")
def unix_timestamp_without_an_argument(t):
    return t.orders.select("order_id", t.F.unix_timestamp().alias("u"))


@case("clock:a", "clock:b", "clock:c")
def clock_three_times(t):
    return t.orders.selectExpr("now() a", "curdate() b", "current_time() c")


@case()
def clock_that_is_dropped(t):
    made = t.orders.withColumn("tmp", t.F.current_timestamp())
    return made.withColumn("tmp2", t.F.year("tmp")).drop("tmp", "tmp2")


@case()
def clock_in_a_string(t):
    return t.orders.withColumn("note", t.F.lit("current_timestamp() and rand()"))


@case()
def column_called_like_a_function(t):
    named = t.orders.withColumn("rand", t.F.lit(1)).withColumn("uuid", t.F.lit("uuid()"))
    return named.withColumn("now()", t.F.lit(2))


@case()
def literals_of_a_window(t):
    start = dt.datetime(2026, 4, 25, tzinfo=dt.timezone.utc)
    return t.orders.withColumn("start", t.F.lit(start)).where(t.F.col("placed") >= t.F.lit(start))


@case()
def string_with_lines_and_brackets(t):
    text = "a (b\n+- Project [rand() AS x#1], ] now()"
    return t.orders.select("order_id", t.F.lit(text).alias("note"))


sql("clock", "select order_id, current_timestamp at_, d from orders", "clock:at_")
sql("clock_filter", "select order_id from orders where d = current_date", "clock:(rows)")
sql("clock_cast", "select order_id, cast('now' as timestamp) x from orders", "clock:x")
sql("clock_to_date", "select order_id, to_date('yesterday') x from orders", "clock:x")
sql("clock_string", "select order_id, 'now()' a, \"rand()\" b from orders")
sql("unix_timestamp_of_a_column", "select order_id, unix_timestamp(placed) u from orders")
sql("clock_dropped", "select order_id from (select order_id, now() n from orders)")
sql(
    "clock_in_a_cte",
    "with a as (select order_id, now() n from orders) select order_id, n as seen from a",
    "clock:seen",
)
sql(
    "clock_dropped_in_a_cte",
    "with a as (select order_id, now() n from orders) select order_id from a",
)
sql(
    "clock_in_having",
    "select customer from orders group by customer having max(placed) < now()",
    "clock:(rows)",
)
sql(
    "clock_in_a_join",
    "select o.order_id from orders o join customers c on o.customer = "
    "c.customer and o.placed < now()",
    "clock:(rows)",
)
sql(
    "clock_in_a_scalar_subquery",
    "select order_id, (select max(now()) from customers) m from orders",
    "clock:m",
)

# --- randomness, generated ids, placement, session


@case("random:r")
def rand_column(t):
    return t.orders.withColumn("r", t.F.rand())


@case("random:r")
def rand_with_a_seed(t):
    return t.orders.withColumn("r", t.F.rand(7) + 1)


@case("random:a", "random:b", "random:c")
def other_randoms(t):
    return t.orders.select(
        t.F.randn().alias("a"),
        t.F.expr("uuid()").alias("b"),
        t.F.shuffle(t.F.array("d")).alias("c"),
    )


@case("random:(rows)")
def random_filter(t):
    return t.orders.where(t.F.rand() < 0.1)


@case("random:(rows)")
def random_group(t):
    return t.orders.groupBy((t.F.rand() * 10).cast("int").alias("g")).count().select("count")


@case("sample:(rows)")
def sampled(t):
    return t.orders.sample(0.1)


@case("sample:(rows)")
def sampled_with_a_seed(t):
    return t.orders.sample(fraction=0.1, seed=3)


@case("random:(rows)")
def random_order_before_a_limit(t):
    return t.orders.select("order_id").orderBy(t.F.rand()).limit(5)


@case()
def random_order_alone(t):
    return t.orders.orderBy(t.F.rand())


@case()
def random_that_is_dropped(t):
    return t.orders.withColumn("r", t.F.rand()).drop("r")


@case()
def hash_instead_of_random(t):
    return t.orders.where(t.F.abs(t.F.xxhash64("order_id")) % 10 == 0)


@case("generated_id:id")
def generated_id(t):
    return t.orders.withColumn("id", t.F.monotonically_increasing_id())


@case()
def generated_key(t):
    key = t.F.expr(setpoint.surrogate_key_sql(t.orders, "order_id"))
    return t.orders.withColumn("id", key)


@case("placement:p")
def partition_id(t):
    return t.orders.withColumn("p", t.F.spark_partition_id())


@case("placement:f")
def input_file(t):
    return t.files.select("a", t.F.input_file_name().alias("f"))


@case("placement:file_path", "placement:m")
def file_metadata(t):
    return t.files.select("a", "_metadata.file_path", t.F.col("_metadata.file_size").alias("m"))


@case()
def files_alone(t):
    return t.files


@case("session:who", "session:zone", "session:db")
def session_functions(t):
    return t.orders.selectExpr(
        "current_user() who", "current_timezone() zone", "current_database() db"
    )


sql("uuid", "select uuid() as id, order_id from orders", "random:id")
sql(
    "random",
    "select order_id, random() as r, uniform(1, 9) u, randstr(4) s from orders",
    "random:r",
    "random:u",
    "random:s",
)
sql("sample", "select order_id from orders tablesample (10 percent)", "sample:(rows)")
sql("tablesample_rows", "select order_id from orders tablesample (3 rows)", "pick:(rows)")
sql("user", "select order_id, user() u, version() v from orders", "session:u", "session:v")
sql(
    "random_in_exists",
    "select order_id from orders o where exists (select 1 from customers c "
    "where c.customer = o.customer and rand() > 0.5)",
    "random:(rows)",
)
sql(
    "random_in_in",
    "select order_id from orders where customer in (select customer from "
    "customers where rand() > 0.5)",
    "random:(rows)",
)
sql(
    "random_in_case",
    "select order_id, case when cents > 5 then rand() else 0 end x from orders",
    "random:x",
)

# --- order of rows in aggregates


@case("unordered:any")
def first_of_a_group(t):
    return t.orders.groupBy("customer").agg(t.F.first("placed").alias("any"))


@case("unordered:a", "unordered:b")
def last_and_any(t):
    return t.orders.groupBy("customer").agg(t.F.last("d").alias("a"), t.F.any_value("d").alias("b"))


@case("unordered:first(placed)")
def first_after_a_sort(t):
    return t.orders.orderBy("placed").groupBy("customer").agg(t.F.first("placed"))


@case()
def first_of_a_key(t):
    return t.orders.groupBy("customer").agg(
        t.F.first("customer").alias("c"), t.F.first(t.F.lit(1)).alias("one")
    )


@case()
def first_of_what_follows_from_the_key(t):
    made = t.orders.withColumn("big", t.F.upper("customer"))
    return made.groupBy("customer").agg(t.F.first("big").alias("big"))


@case()
def first_of_a_single_row(t):
    once = t.orders.groupBy("customer", "d").agg(t.F.max("cents").alias("cents"))
    return once.groupBy("customer", "d").agg(t.F.first("cents").alias("cents"))


@case()
def first_grouped_by_all(t):
    return t.orders.groupBy(*ALL).agg(t.F.first("cents").alias("c2"))


@case("unordered:ids")
def collected(t):
    return t.orders.groupBy("customer").agg(t.F.collect_list("order_id").alias("ids"))


@case("unordered:ids")
def collected_set(t):
    return t.orders.groupBy("customer").agg(t.F.collect_set("order_id").alias("ids"))


@case("unordered:text")
def collected_into_a_text(t):
    ids = t.F.collect_list(t.F.col("order_id").cast("string"))
    return t.orders.groupBy("customer").agg(t.F.concat_ws(",", ids).alias("text"))


@case()
def collected_and_sorted(t):
    return t.orders.groupBy("customer").agg(
        t.F.sort_array(t.F.collect_list("order_id")).alias("a"),
        t.F.array_sort(t.F.collect_set("order_id")).alias("b"),
        t.F.size(t.F.collect_set("order_id")).alias("c"),
    )


@case()
def collected_and_sorted_later(t):
    made = t.orders.groupBy("customer").agg(t.F.collect_list("order_id").alias("ids"))
    return made.withColumn("ids", t.F.sort_array("ids"))


@case("unordered:ids")
def collected_and_sorted_by_a_comparison(t):
    made = t.orders.groupBy("customer").agg(t.F.collect_list("order_id").alias("ids"))
    return made.select(t.F.expr("array_sort(ids, (l, r) -> l % 10 - r % 10) as ids"))


@case()
def collected_and_exploded(t):
    made = t.orders.groupBy("customer").agg(t.F.collect_list("order_id").alias("ids"))
    return made.select("customer", t.F.explode("ids").alias("order_id"))


@case("ties:top")
def max_by_with_ties(t):
    return t.orders.groupBy("customer").agg(t.F.max_by("order_id", "placed").alias("top"))


@case()
def max_by_of_a_struct(t):
    made = t.F.max_by("order_id", t.F.struct("placed", "order_id"))
    return t.orders.groupBy("customer").agg(made.alias("top"))


@case()
def sums_and_counts(t):
    return t.orders.groupBy("customer").agg(
        t.F.sum("cents").alias("a"),
        t.F.count("*").alias("b"),
        t.F.max("placed").alias("c"),
        t.F.avg("price").alias("e"),
        t.F.countDistinct("order_id").alias("f"),
        t.F.approx_count_distinct("order_id").alias("g"),
        t.F.sum("amount").alias("h"),
    )


@case("approximate:median", "ties:most")
def approximations(t):
    return t.orders.groupBy("customer").agg(
        t.F.percentile_approx("cents", 0.5).alias("median"), t.F.mode("cents").alias("most")
    )


sql("first", "select customer, first(d) f from orders group by customer", "unordered:f")
sql("array_agg", "select customer, array_agg(d) f from orders group by customer", "unordered:f")
sql("listagg", "select listagg(customer, ',') f from orders", "unordered:f")
sql(
    "listagg_ordered",
    "select listagg(customer, ',') within group (order by customer) f from orders",
)
sql("mode_ordered", "select mode() within group (order by cents) f from orders")
sql("percentile", "select percentile(cents, 0.5) f, median(cents) g from orders")
sql(
    "collect_sorted", "select customer, array_sort(collect_list(d)) f from orders group by customer"
)
sql("count_filter", "select count(*) filter (where cents > 3) n from orders")
sql(
    "pivot",
    "select * from (select customer, d, cents from orders) pivot (sum(cents) for d in "
    "(date'2026-04-25' a, date'2026-04-26' b))",
)

# --- windows


@case("ties:n")
def row_number_with_ties(t):
    over = t.W.partitionBy("customer").orderBy("placed")
    return t.orders.withColumn("n", t.F.row_number().over(over))


@case("ties:(rows)")
def latest_with_ties(t):
    over = t.W.partitionBy("customer").orderBy(t.F.desc("placed"))
    ranked = t.orders.withColumn("n", t.F.row_number().over(over))
    return ranked.where("n = 1").drop("n")


@case()
def latest_by_all_columns(t):
    over = t.W.partitionBy("customer").orderBy(t.F.desc("placed"), *ALL)
    return t.orders.withColumn("n", t.F.row_number().over(over)).where("n = 1").drop("n")


@case()
def latest_by_a_row_hash(t):
    hashed = t.orders.withColumn("h", t.F.expr(setpoint.row_hash_sql(t.orders)))
    over = t.W.partitionBy("customer").orderBy(t.F.desc("placed"), "h")
    return hashed.withColumn("n", t.F.row_number().over(over)).where("n = 1").drop("n", "h")


@case()
def latest_of_what_is_ordered(t):
    over = t.W.partitionBy("customer").orderBy(t.F.desc("placed"))
    ranked = t.orders.withColumn("n", t.F.row_number().over(over))
    return ranked.where("n = 1").select("customer", "placed")


@case()
def row_number_of_groups(t):
    made = t.orders.groupBy("customer", "d").agg(t.F.sum("cents").alias("total"))
    over = t.W.partitionBy("customer").orderBy(t.F.desc("total"), "d")
    return made.withColumn("n", t.F.row_number().over(over))


@case("ties:n")
def row_number_of_groups_with_ties(t):
    made = t.orders.groupBy("customer", "d").agg(t.F.sum("cents").alias("total"))
    over = t.W.partitionBy("customer").orderBy(t.F.desc("total"))
    return made.withColumn("n", t.F.row_number().over(over))


@case()
def ranks(t):
    over = t.W.partitionBy("customer").orderBy("placed")
    return t.orders.select(
        "order_id",
        t.F.rank().over(over).alias("a"),
        t.F.dense_rank().over(over).alias("b"),
        t.F.sum("cents").over(over).alias("c"),
    )


@case("ties:a", "ties:b", "ties:c", "ties:e")
def neighbours_with_ties(t):
    over = t.W.partitionBy("customer").orderBy("placed")
    return t.orders.select(
        "order_id",
        t.F.lag("cents").over(over).alias("a"),
        t.F.lead("cents").over(over).alias("b"),
        t.F.first("cents").over(over).alias("c"),
        t.F.ntile(4).over(over).alias("e"),
    )


@case("ties:running")
def running_sum_by_rows(t):
    over = (
        t.W.partitionBy("customer")
        .orderBy("placed")
        .rowsBetween(t.W.unboundedPreceding, t.W.currentRow)
    )
    return t.orders.withColumn("running", t.F.sum("cents").over(over))


@case()
def sum_of_a_partition(t):
    over = t.W.partitionBy("customer")
    return t.orders.withColumn("all", t.F.sum("cents").over(over))


@case("unordered:f")
def first_of_a_partition(t):
    return t.orders.withColumn("f", t.F.first("cents").over(t.W.partitionBy("customer")))


@case()
def deduped(t):
    return setpoint.dedupe(t.orders, "customer", "placed")


@case()
def deduped_by_many(t):
    return setpoint.dedupe(t.orders, ["customer", "d"], ["placed", "cents"])


sql(
    "row_number",
    "select *, row_number() over (partition by customer order by placed) n from orders",
    "ties:n",
)
sql(
    "qualify",
    "select order_id, customer from (select *, row_number() over (partition by customer "
    "order by placed desc) n from orders) where n = 1",
    "ties:(rows)",
)
sql(
    "row_number_distinct",
    "select customer, row_number() over (order by customer) n from "
    "(select distinct customer from orders)",
)
sql(
    "last_value",
    "select order_id, last_value(cents) over (partition by customer order by d) x from orders",
    "ties:x",
)
sql(
    "first_value_ordered",
    "select order_id, first_value(d) over (partition by customer order by d) x from orders",
)

# --- picks


@case("pick:(rows)")
def limited(t):
    return t.orders.limit(10)


@case("pick:(rows)")
def limited_after_a_partial_order(t):
    return t.orders.orderBy("placed").limit(10)


@case()
def limited_after_a_total_order(t):
    return t.orders.orderBy(t.F.desc("placed"), *ALL).limit(10)


@case()
def limited_to_what_is_ordered(t):
    return t.orders.orderBy("placed").limit(10).select("placed")


@case()
def limited_groups(t):
    made = t.orders.groupBy("customer").agg(t.F.sum("cents").alias("total"))
    return made.orderBy(t.F.desc("total"), "customer").limit(3)


@case("pick:(rows)")
def limited_groups_with_ties(t):
    made = t.orders.groupBy("customer").agg(t.F.sum("cents").alias("total"))
    return made.orderBy(t.F.desc("total")).limit(3)


@case()
def limited_range(t):
    return t.spark.range(100).orderBy("id").limit(5)


@case("pick:(rows)")
def limited_range_without_order(t):
    return t.spark.range(100).limit(5)


@case()
def limited_total(t):
    return t.orders.agg(t.F.sum("cents").alias("total")).limit(1)


@case("pick:(rows)")
def skipped(t):
    return t.orders.orderBy("d").offset(5)


@case("pick:(rows)")
def duplicates_dropped_by_key(t):
    return t.orders.dropDuplicates(["customer"])


@case()
def duplicates_dropped(t):
    return t.orders.dropDuplicates()


@case()
def duplicates_dropped_to_the_key(t):
    return t.orders.dropDuplicates(["customer"]).select("customer")


@case()
def distinct(t):
    return t.orders.select("customer", "d").distinct()


@case("clock:at")
def distinct_with_a_clock(t):
    return t.orders.select("customer", t.F.current_date().alias("at")).distinct()


@case()
def count_of_a_limit(t):
    return t.orders.limit(10).agg(t.F.count("*").alias("n"))


sql("limit", "select * from orders order by placed limit 3", "pick:(rows)")
sql(
    "limit_total",
    "select customer, sum(cents) s from orders group by customer order by s desc, customer limit 3",
)
sql(
    "limit_in_a_subquery",
    "select order_id, (select name from customers limit 1) n from orders",
    "pick:n",
)
sql(
    "limit_in_exists",
    "select order_id from orders o where exists (select * from customers c "
    "where c.customer = o.customer limit 1)",
)
sql("limit_of_a_distinct", "select distinct customer from orders order by customer limit 2")
sql("union_distinct", "select customer from orders union select customer from customers")
sql("except", "select customer from orders except select customer from customers")
sql(
    "limit_in_a_cte",
    "with a as (select * from orders limit 5) select sum(cents) s from a",
    "pick:(rows)",
)

# --- floating point sums as keys


@case("float_key:total", keys=("total",))
def float_sum_as_a_key(t):
    return t.orders.groupBy("customer").agg(t.F.sum("amount").alias("total"))


@case("float_key:k", keys=("k",))
def float_average_inside_a_key(t):
    made = t.orders.groupBy("customer").agg(t.F.avg("amount").alias("mean"))
    return made.withColumn("k", t.F.concat_ws("-", "customer", t.F.col("mean").cast("string")))


@case(keys=("customer",))
def float_sum_as_a_value(t):
    return t.orders.groupBy("customer").agg(t.F.sum("amount").alias("total"))


@case(keys=("total",))
def decimal_sum_as_a_key(t):
    return t.orders.groupBy("customer").agg(t.F.sum("price").alias("total"))


@case("float_key:(rows)")
def float_sum_in_a_filter(t):
    made = t.orders.groupBy("customer").agg(t.F.sum("amount").alias("total"))
    return made.where("total > 100")


sql(
    "float_having",
    "select customer from orders group by customer having sum(amount) > 5",
    "float_key:(rows)",
)
sql("decimal_having", "select customer from orders group by customer having sum(price) > 5")
sql(
    "decimal_cast",
    "select customer, sum(cast(amount as decimal(18,2))) total from orders group by "
    "customer having sum(cast(amount as decimal(18,2))) > 5",
    keys=("total",),
)

# --- Python functions


@case("clock:x")
def udf_with_a_clock(t):
    return t.orders.select("order_id", t.F.udf(stamped, "int")("order_id").alias("x"))


@case()
def udf_that_is_clean(t):
    return t.orders.select("order_id", t.F.udf(doubled, "int")("order_id").alias("x"))


@case("random:x")
def udf_with_uuid(t):
    made = t.F.udf(lambda value: str(uuid.uuid4()), "string")
    return t.orders.select("order_id", made("order_id").alias("x"))


@case()
def udf_with_uuid5(t):
    made = t.F.udf(lambda value: str(uuid.uuid5(uuid.NAMESPACE_DNS, str(value))), "string")
    return t.orders.select("order_id", made("order_id").alias("x"))


@case("clock:x")
def udf_with_a_helper(t):
    def outer(value):
        return stamped(value)

    return t.orders.select("order_id", t.F.udf(outer, "int")("order_id").alias("x"))


@case("session:x")
def udf_with_the_environment(t):
    def home(value):
        import os

        return os.environ["HOME"]

    return t.orders.select("order_id", t.F.udf(home, "string")("order_id").alias("x"))


@case("network:x")
def udf_with_a_request(t):
    def ask(value):
        from urllib.request import urlopen

        return str(urlopen(f"https://example.org/{value}").read())

    return t.orders.select("order_id", t.F.udf(ask, "string")("order_id").alias("x"))


@case("udf:x")
def udf_that_says_so(t):
    made = t.F.udf(doubled, "int").asNondeterministic()
    return t.orders.select("order_id", made("order_id").alias("x"))


@case("random:(rows)")
def map_in_pandas_with_random(t):
    def noisy(batches):
        for batch in batches:
            yield batch.assign(order_id=batch.order_id * random.random())

    return t.orders.select("order_id").mapInPandas(noisy, "order_id double")


@case()
def map_in_pandas_that_is_clean(t):
    def same(batches):
        yield from batches

    return t.orders.select("order_id").mapInPandas(same, "order_id int")


@case("clock:(rows)")
def map_in_arrow_after_a_clock(t):
    def same(batches):
        yield from batches

    return t.orders.select(t.F.now().alias("n")).mapInArrow(same, "n timestamp")


@case("clock:(rows)")
def apply_in_pandas_with_a_clock(t):
    def dated(frame):
        return frame.assign(order_id=dt.datetime.now(tz=dt.timezone.utc).year)

    made = t.orders.select("order_id", "customer").groupBy("customer")
    return made.applyInPandas(dated, "order_id int, customer string")


# --- ordinary pipelines


@case()
def joined_and_summed(t):
    made = t.orders.join(t.customers, "customer", "left").where("cents > 0")
    return made.groupBy("d", "name").agg(t.F.sum("cents").alias("total")).orderBy("d")


@case()
def latest_state_joined(t):
    latest = setpoint.dedupe(t.orders, "order_id", "placed")
    names = t.customers.groupBy("customer").agg(t.F.max("name").alias("name"))
    over = t.W.partitionBy("customer").orderBy("placed", "order_id")
    once = latest.join(names, "customer", "left")
    return once.withColumn("n", t.F.row_number().over(over))


@case()
def rolled_up(t):
    return t.orders.rollup("customer", "d").agg(t.F.sum("cents").alias("s"))


@case()
def unpivoted(t):
    return t.orders.unpivot(["order_id"], ["cents"], "what", "value")


@case()
def fifty_columns(t):
    return t.orders.select("order_id", *[t.F.lit(i).alias(f"c{i}") for i in range(50)])


@case("clock:c40")
def a_clock_among_fifty_columns(t):
    columns = [t.F.now() if i == 40 else t.F.lit(i) for i in range(50)]
    return t.orders.select(*[column.alias(f"c{i}") for i, column in enumerate(columns)])


sql("lateral", "select o.order_id, x.y from orders o, lateral (select o.cents + 1 as y) x")
sql(
    "lateral_clock",
    "select o.order_id, x.y from orders o, lateral (select now() as y) x",
    "clock:y",
)
sql("exploded", "select order_id, p, c from orders lateral view posexplode(array(1, 2)) e as p, c")
sql("view", "select * from stamped_orders", "clock:stamp")
sql("view_without_its_clock", "select order_id from stamped_orders")

# --- what is unique, and what only looks like it


@case("pick:(rows)")
def numbered_by_an_expression(t):
    over = t.W.partitionBy(t.F.upper("customer")).orderBy(*ALL)
    ranked = t.orders.withColumn("n", t.F.row_number().over(over)).where("n = 1")
    return ranked.orderBy("n").limit(2)


@case()
def ordered_within_one_day(t):
    day = t.orders.where("d = date'2026-04-25'").select("d", "customer", "cents").distinct()
    over = t.W.orderBy("customer", "cents")
    return day.withColumn("n", t.F.row_number().over(over))


@case("ties:n")
def unique_keys_multiplied_by_a_join(t):
    once = t.orders.groupBy("customer").agg(t.F.max("placed").alias("placed"))
    many = once.join(t.customers, "customer")
    return many.withColumn("n", t.F.row_number().over(t.W.orderBy("customer")))


@case()
def unique_keys_joined_to_unique_keys(t):
    once = t.orders.groupBy("customer").agg(t.F.max("placed").alias("placed"))
    names = t.customers.groupBy("customer").agg(t.F.max("name").alias("name"))
    both = once.join(names, "customer", "left")
    return both.withColumn("n", t.F.row_number().over(t.W.orderBy("customer")))


def known_customers(t, how):
    right = t.customers.select("customer", t.F.lit(1).alias("known"))
    both = t.orders.join(right, "customer", how).select("d", "known")
    return both.withColumn("n", t.F.row_number().over(t.W.partitionBy("d").orderBy("d")))


@case()
def a_constant_behind_a_join(t):
    return known_customers(t, "inner")


@case("ties:n")
def a_constant_that_an_outer_join_makes_null(t):
    return known_customers(t, "left")


@case("pick:(rows)")
def limited_after_an_order_by_an_expression(t):
    names = t.orders.select("customer").distinct()
    return names.orderBy(t.F.length("customer")).limit(2)


@case()
def duplicates_dropped_by_a_unique_key(t):
    once = t.orders.groupBy("customer").agg(t.F.max("placed").alias("placed"))
    return once.dropDuplicates(["customer"])


@case("unordered:(rows)")
def numbered_items_of_a_list(t):
    made = t.orders.groupBy("customer").agg(t.F.collect_list("order_id").alias("ids"))
    return made.select("customer", t.F.posexplode("ids"))


@case("ties:ids")
def collected_over_an_order_with_ties(t):
    over = t.W.partitionBy("customer").orderBy("placed")
    return t.orders.select("order_id", t.F.collect_list("cents").over(over).alias("ids"))


@case("pick:(rows)", "clock:(rows)", "random:r")
def three_things_at_once(t):
    made = t.orders.where(t.F.col("placed") < t.F.now()).limit(3)
    return made.withColumn("r", t.F.rand())


@case("clock:at")
def clock_on_both_sides_of_a_union_by_name(t):
    one = t.orders.select("order_id", t.F.now().alias("at"))
    return one.unionByName(t.orders.select(t.F.now().alias("at"), "order_id"))


@case()
def joined_with_a_limit_of_one_row(t):
    newest = t.orders.agg(t.F.max("placed").alias("newest"))
    return t.orders.crossJoin(newest)


sql(
    "correlated",
    "select order_id, (select max(name) from customers c where c.customer = "
    "o.customer and o.placed < now()) n from orders o",
    "clock:n",
)
sql("intersect", "select customer from orders intersect select customer from customers")
sql(
    "recursive",
    "with recursive r as (select 1 as n union all select n + 1 from r where n < 3) select n from r",
)
sql(
    "recursive_clock",
    "with recursive r as (select 1 as n, now() as t union all select n + 1, t "
    "from r where n < 3) select n, t from r",
    "clock:t",
)
sql("values", "select * from values (1, 'rand()'), (2, 'x') as t(a, b)")
sql("order_by_all_limit", "select customer, d from orders order by all limit 3")
sql(
    "nested_cte",
    "with a as (select * from orders), b as (select order_id, rand() r from a), "
    "c as (select order_id, r * 2 as q from b) select order_id, q from c",
    "random:q",
)
sql("group_by_all", "select customer, sum(cents) s from orders group by all")
sql("grouping_sets", "select customer, d, count(*) n from orders group by cube (customer, d)")

# --- counts are no constants


def counted(t):
    return t.orders.groupBy("customer", "d").count()


@case("unordered:x")
def counts_collected(t):
    return counted(t).groupBy("customer").agg(t.F.collect_list("count").alias("x"))


@case("unordered:x")
def first_of_the_counts(t):
    return counted(t).groupBy("customer").agg(t.F.first("count").alias("x"))


@case("pick:(rows)")
def duplicates_dropped_by_key_before_counts(t):
    return counted(t).select("customer", "count").dropDuplicates(["customer"])


@case("pick:(rows)")
def limited_counts(t):
    return counted(t).select("count").limit(3)


@case("ties:(rows)")
def numbered_counts(t):
    over = t.W.partitionBy("customer").orderBy(t.F.lit(1))
    numbered = counted(t).select("customer", "count").withColumn("n", t.F.row_number().over(over))
    return numbered.where("n = 1").drop("n")


@case()
def a_key_under_another_name(t):
    made = t.orders.groupBy(t.F.upper("customer").alias("name")).count()
    return made.withColumn("n", t.F.row_number().over(t.W.orderBy("name")))


# --- plans that would take minutes if each node doubled the work


@case()
def filters_on_groups(t):
    made = t.orders.groupBy("customer").agg(t.F.max("cents").alias("z"))
    for number in range(14):
        made = made.where(f"z != {number}").where(t.F.col("z") == number)
    return made.withColumn("n", t.F.row_number().over(t.W.orderBy("customer")))


@case()
def limits_of_limits(t):
    made = t.orders.select("customer", "cents")
    for number in range(18):
        made = made.orderBy("customer", "cents").limit(100 - number)
        made = made.withColumn("cents", t.F.col("cents") + 1)
    return made


def _grouped_joins(count):
    group = "(select customer, max(cents) m from orders group by customer)"
    joins = " ".join(
        f"left join {group} j{number} on b.customer = j{number}.customer" for number in range(count)
    )
    return f"select b.customer, row_number() over (order by b.customer) n from {group} b {joins}"


sql("joins_of_groups", _grouped_joins(22))

# --- floating point numbers that decide about nothing, and some that hide

sql(
    "count_with_a_condition",
    "select customer, sum(case when amount > 1 then 1 else 0 end) n from orders "
    "group by customer having sum(case when amount > 0.5 then 1 else 0 end) > 2",
)
sql(
    "sum_of_a_floating_branch",
    "select customer from orders group by customer "
    "having sum(case when cents > 5 then amount else 0 end) > 2",
    "float_key:(rows)",
)
sql(
    "count_by_if",
    "select customer from orders group by customer having sum(if(amount > 1, 1, 0)) > 2",
)
sql(
    "sum_of_a_floating_if",
    "select customer from orders group by customer having sum(if(cents > 1, amount, 0)) > 2",
    "float_key:(rows)",
)
sql("sum_of_floors", "select customer from orders group by customer having sum(floor(amount)) > 2")


@case("float_key:(rows)")
def float_sum_of_a_field(t):
    made = t.items.groupBy("customer").agg(t.F.sum("item.price").alias("p"))
    return made.where("p > 10")


@case("float_key:(rows)")
def float_sum_of_an_element(t):
    made = t.items.groupBy("customer").agg(t.F.sum(t.F.col("parts")[0]).alias("p"))
    return made.where("p > 10")


@case()
def sum_of_a_whole_field(t):
    return t.items.groupBy("customer").agg(t.F.sum("item.pieces").alias("p")).where("p > 10")


def scored(batches):
    for batch in batches:
        yield batch.assign(score=1.0)


def averages(t):
    made = t.orders.groupBy("customer").agg(t.F.avg("amount").alias("mean"))
    return made.mapInPandas(scored, "customer string, mean double, score double")


@case(keys=("customer",))
def float_average_for_a_python_function(t):
    return averages(t)


@case("float_key:(rows)")
def float_average_behind_a_python_function(t):
    return averages(t).where("score > 0.5")


# --- what Java does, what a cipher draws

sql("reflect", "select reflect('java.util.UUID', 'randomUUID') x from orders", "udf:x")
sql("try_reflect", "select try_reflect('java.util.UUID', 'randomUUID') x from orders", "udf:x")
sql("java_method", "select java_method('java.lang.System', 'nanoTime') x from orders", "udf:x")
sql("aes", "select aes_encrypt(customer, '0000111122223333') x from orders", "random:x")
sql("aes_ecb", "select aes_encrypt(customer, '0000111122223333', 'ECB') x from orders")
sql(
    "aes_with_a_start",
    "select aes_encrypt(customer, '0000111122223333', 'GCM', 'DEFAULT', "
    "unhex('000000000000000000000000')) x from orders",
)
sql(
    "time_zone_of_the_session",
    "select convert_timezone('Europe/Berlin', to_timestamp_ntz(customer)) x from orders",
)

# --- arrays: where the order of the elements shows

sql(
    "clock_in_an_array",
    "select order_id from orders where array_contains(array(d), current_date())",
    "clock:(rows)",
)
sql("random_in_an_array", "select array_contains(array(1.0D), rand()) x from orders", "random:x")


def of_list(name, text, *expected):
    sql(name, f"select customer, {text} as x from orders group by customer", *expected)


of_list("list_exists", "exists(collect_set(d), x -> x > date'2026-04-25')")
of_list("list_forall", "forall(collect_list(cents), x -> x > 1)")
of_list("list_added", "aggregate(collect_list(order_id), 0, (a, b) -> a + b)")
of_list("list_added_times_two", "aggregate(collect_list(cents), 0L, (a, b) -> a + b * 2)")
of_list("list_of_floats", "aggregate(collect_list(amount), 0.0D, (a, b) -> a + b)", "unordered:x")
of_list("list_subtracted", "aggregate(collect_list(order_id), 0, (a, b) -> a - b)", "unordered:x")
of_list("list_folded", "aggregate(collect_list(order_id), 0, (a, b) -> a + a * b)", "unordered:x")
of_list("list_places", "sort_array(transform(collect_list(cents), (x, i) -> x + i))", "unordered:x")
of_list("list_places_unused", "sort_array(transform(collect_list(cents), (x, i) -> x + 1))")
of_list(
    "list_places_filtered",
    "size(filter(collect_list(cents), (x, i) -> i < 2 and x > 3))",
    "unordered:x",
)

# --- picks that have one row to pick from, keys that stay unique


def days(t):
    return t.orders.groupBy("customer", "d").agg(t.F.max("placed").alias("m"))


@case()
def pivoted(t):
    return days(t).groupBy("d").pivot("customer", ["Ada", "Bob"]).agg(t.F.first("m"))


@case("unordered:25", "unordered:26")
def pivoted_with_several_rows(t):
    made = t.orders.select("customer", t.F.dayofmonth("d").alias("day"), "placed")
    return made.groupBy("customer").pivot("day", [25, 26]).agg(t.F.first("placed"))


@case()
def pivoted_by_hand(t):
    day = t.F.when(t.F.col("d") == t.F.lit(dt.date(2026, 4, 25)), t.F.col("m"))
    return days(t).groupBy("customer").agg(t.F.first(day, ignorenulls=True).alias("x"))


@case("unordered:x")
def pivoted_by_hand_with_nulls(t):
    day = t.F.when(t.F.col("d") == t.F.lit(dt.date(2026, 4, 25)), t.F.col("m"))
    return days(t).groupBy("customer").agg(t.F.first(day).alias("x"))


def full_join(t, right):
    once = t.orders.groupBy("customer").agg(t.F.sum("cents").alias("s"))
    return once.join(right, "customer", "full").select("customer", "s", "name")


@case()
def groups_in_a_full_join(t):
    names = t.customers.groupBy("customer").agg(t.F.max("name").alias("name"))
    made = full_join(t, names)
    return made.withColumn("n", t.F.row_number().over(t.W.orderBy("customer")))


@case("pick:(rows)")
def rows_in_a_full_join(t):
    return full_join(t, t.customers).orderBy("customer").limit(3)


@case()
def a_key_as_text(t):
    made = t.orders.groupBy("order_id").agg(t.F.max("d").alias("d"))
    told = made.select(t.F.col("order_id").cast("string").alias("id"), "d")
    return told.withColumn("n", t.F.row_number().over(t.W.orderBy("id")))


@case("ties:n")
def a_key_cut_to_a_date(t):
    made = t.orders.groupBy("placed").agg(t.F.max("cents").alias("c"))
    over = t.W.orderBy(t.F.col("placed").cast("date"))
    return made.withColumn("n", t.F.row_number().over(over))


# --- rows that tie and have changed places


def sessions(t):
    over = t.W.partitionBy("customer").orderBy("placed")
    gap = t.F.col("placed").cast("long") - t.F.col("before").cast("long") > 1800
    made = t.orders.withColumn("before", t.F.lag("placed").over(over))
    return made.withColumn("starts", gap.cast("int")), over


@case()
def sessions_numbered(t):
    made, over = sessions(t)
    made = made.withColumn("session", t.F.sum("starts").over(over))
    return made.select("order_id", "session")


@case()
def sessions_counted(t):
    made, _ = sessions(t)
    sums = t.F.sum("starts").alias("sessions"), t.F.sum("cents").alias("cents")
    return made.groupBy("customer").agg(*sums)


@case("ties:starts", "ties:before")
def session_starts(t):
    return sessions(t)[0]


@case("ties:session")
def sessions_numbered_by_rows(t):
    made, over = sessions(t)
    by_rows = over.rowsBetween(t.W.unboundedPreceding, t.W.currentRow)
    return made.select("order_id", t.F.sum("starts").over(by_rows).alias("session"))


@case("ties:weight")
def session_starts_weighted(t):
    made, over = sessions(t)
    weight = t.F.sum(t.F.col("starts") * t.F.col("cents")).over(over)
    return made.select("order_id", weight.alias("weight"))


@case("ties:session")
def sessions_of_some_rows(t):
    made, over = sessions(t)
    made = made.where("cents > 5").withColumn("session", t.F.sum("starts").over(over))
    return made.select("order_id", "session")


@case("ties:starts")
def session_starts_by_something_else(t):
    made, _ = sessions(t)
    return made.groupBy("customer", "cents").agg(t.F.sum("starts").alias("starts"))


# --- Python functions that were taken for unreadable, or broke the check


class Settings:
    """What asks for a connection as soon as somebody looks at it."""

    @property
    def model(self):
        raise RuntimeError("no model on the driver")

    @property
    def moment(self):
        return time.time()


SETTINGS = Settings()
LARGE = {str(number): f"{number:020}" for number in range(60_000)}


@case()
def udf_of_a_builtin(t):
    return t.orders.select(
        t.F.udf(len, "int")("customer").alias("a"), t.F.udf(str.upper)("customer").alias("b")
    )


@case()
def udf_with_a_large_closure(t):
    large = dict(LARGE)
    return t.orders.select(t.F.udf(lambda value: large.get(value))("customer").alias("x"))


@case("clock:x")
def udf_with_a_large_closure_and_a_clock(t):
    large = dict(LARGE)
    made = t.F.udf(lambda value: large.get(str(time.time())))
    return t.orders.select(made("customer").alias("x"))


@case()
def udf_with_a_broadcast(t):
    if not t.classic:  # Connect has no broadcast variables
        return t.orders
    lookup = t.spark.sparkContext.broadcast({"a": 1})
    return t.orders.select(t.F.udf(lambda v: lookup.value.get(v), "int")("customer").alias("x"))


@case("random:x")
def udf_with_a_broadcast_and_a_random(t):
    if not t.classic:
        return t.orders.select(t.F.rand().alias("x"))
    lookup = t.spark.sparkContext.broadcast({"a": 1})
    made = t.F.udf(lambda v: lookup.value.get(v, random.random()), "double")
    return t.orders.select(made("customer").alias("x"))


@case()
def udf_with_settings_of_the_executors(t):
    return t.orders.select(t.F.udf(lambda v: SETTINGS.model.score(v))("customer").alias("x"))


@case("clock:x")
def udf_with_a_clock_in_a_property(t):
    return t.orders.select(t.F.udf(lambda v: SETTINGS.moment)("customer").alias("x"))
