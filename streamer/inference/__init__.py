"""What may be concluded from a run, finished or not: pure functions of plain numbers.

Two questions, never mixed: what this run's pass rate will be, and how good the agent is. docs/inference.md
explains both, and code cites its sections as "(inference 5)".

- `conclusion`: the interval of the final pass rate, or why there is none. Begin here.
- `finite_population`: that interval, from outcomes in order.
- `order` and `checks`: the order it rests on, and what speaks against an order.
- `shuffle`: how to shuffle a list of tasks.
- `bounds`: what can still be reached, with no assumption at all.
- `ability`: errors and intervals that take the tasks as a sample.
- `paired`: two sets of trials at the same tasks; `comparisons`: two agents while a run goes on.
- `ranks`: the places of many agents.
- `quantiles`: of the normal distribution and of Student's t, the same bits on every machine.

All levels are exact fractions. Equal results give equal bits, because what is computed here enters digests.
"""
