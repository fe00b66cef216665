"""Reads exported tables by each line that docs/data.md documents, and compares all ids with those of the NDJSON file:
exports.py FOLDER TABLE…, where the folder has TABLE.csv, TABLE.ndjson and TABLE.parquet."""

import json
import os
import re
import subprocess
import sys

import duckdb
import pandas

document = open("docs/data.md").read().split("### Open it in", 1)[1].split("\n## ", 1)[0]


def documented(language, begin):
    block = re.search(rf"```{language}\n(.*?)```", document, re.S)[1]
    lines = [line for line in block.splitlines() if line.startswith(begin)]
    assert lines, f"no line of {language} is documented"
    return lines


def plain(value):
    """The id without the mark of CSV, or a text on one line; "" where there is none."""
    if value is None or value is pandas.NA or value != value:
        return ""
    assert not isinstance(value, float), f"{value} is a float: the id is rounded"
    return re.sub(r"[\r\n]+", " ", str(value)).removeprefix("x")


def by_pandas(line):
    read = {"pandas": pandas}
    exec(line, read)
    return {name: list(read["posts"][name]) for name in read["posts"]}


def by_duckdb(line):
    rows = duckdb.sql(line)
    return dict(zip(rows.columns, map(list, zip(*rows.fetchall()))))


def by_r(line, columns):
    names = ", ".join(f'"{name}"' for name in columns)
    write = f"for (name in c({names})) writeLines(gsub('[\\r\\n]+', ' ', ifelse(is.na(posts[[name]]), '', posts[[name]])), paste0(name, '.txt'))"
    typed = f"for (name in c({names})) stopifnot(is.character(posts[[name]]) || all(is.na(posts[[name]])))"
    subprocess.run(["Rscript", "-e", f"{line}; {typed}; {write}"], check=True)
    return {name: open(f"{name}.txt").read().split("\n")[:-1] for name in columns}


readers = [(by_pandas, line) for line in documented("python", "posts = ")]
readers += [(by_duckdb, line) for line in documented("duckdb", "SELECT ")]
readers += [(by_r, line) for line in documented("r", "posts <- ")]
os.chdir(sys.argv[1])
compared = gaps = 0
for table in sys.argv[2:]:
    rows = [json.loads(line) for line in open(f"{table}.ndjson", encoding="utf-8")]
    is_id = lambda value: isinstance(value, str) and value.isdigit()
    columns = [name for name in rows[0] if any(is_id(row[name]) for row in rows)]
    expected = {name: [plain(row[name]) for row in rows] for name in columns}
    gaps += sum("" in values for values in expected.values())
    for reader, line in readers:
        line = re.sub(r"posts\.(csv|ndjson|parquet)", rf"{table}.\1", line)
        read = reader(line, columns) if reader is by_r else reader(line)
        for name in columns:
            values = [plain(value) for value in read[name]]
            assert values == expected[name], f"{table}.{name} by {line}"
            compared += len(values)
    print(f"{table}: {len(rows)} rows, {', '.join(columns)}")
assert gaps or "posts" not in sys.argv, "no column of ids has an empty cell"
print(f"{len(readers)} lines read {compared} ids as they are")
