"""The tools of operators: health, lag, verify, rebuild, repair, rejections."""
