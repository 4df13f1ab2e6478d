"""Settings of Spark for few rows."""

SMALL = {
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.memory": "1g",
    # Few rows go through many plans: to interpret one costs less than to make Java code of it and compile that.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # Tables are small, and those of users are not: joins are made here as they are there.
    "spark.sql.autoBroadcastJoinThreshold": "-1",
    "spark.sql.adaptive.enabled": "false",
    # Every plan is compiled to run once, on a few rows: optimizing it would cost more than it gains.
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}
