"""What operators ask and do: health, lag, verify, rebuild, repair, rejections."""
