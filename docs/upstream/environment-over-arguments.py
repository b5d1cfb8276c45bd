"""An environment variable such as BROKER_URL replaces what the program passes to `faust.App`."""

import os

import faust

os.environ["BROKER_URL"] = "kafka://from-the-environment:9092"
os.environ["BROKER_COMMIT_INTERVAL"] = "60"
app = faust.App("environment", broker="kafka://from-the-program:9092", broker_commit_interval=1.0)
host, interval = app.conf.broker[0].host, app.conf.broker_commit_interval
fault = host != "from-the-program" or interval != 1.0
print(f"{'FAULT' if fault else 'ok'}: the app uses {host} and commits every {interval:.0f} s")
raise SystemExit(fault)
