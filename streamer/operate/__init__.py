"""The tools of operators.

- `health`: status, lag, rejections and their redrive (`requeue`), repair of a run in quarantine.
- `verify`: the log folded again and compared, the rebuild, and the group's configuration.
- `bundle`: runs in one file that anybody can check.
- `notice_rules`: which notice is due, and its text. `notice_delivery`: follows runs and sends the notices.
- `local/`: broker, Redis, worker and page on one machine.
"""
