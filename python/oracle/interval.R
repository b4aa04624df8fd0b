# Intervals: Efron's spatial data, published and by boot, two-peaked delays, and t tests.
source("write.R")
library(boot)

# Efron and Tibshirani, An Introduction to the Bootstrap, table 14.1: 26 children, test A. Their
# table 14.2 for the variance (divided by n), 90 %: BCa 115.8 to 259.6, z0 0.146, a 0.061.
spatial <- c(48, 36, 20, 29, 42, 42, 20, 42, 22, 41, 45, 14, 6, 0, 33, 28, 34, 4, 32, 24, 47, 41, 24, 26, 30, 41)
v <- function(x, i) mean((x[i] - mean(x[i]))^2)
times <- 200000
one <- function(x, statistic, conf) {
  b <- boot(x, statistic, times)
  # The jackknife's acceleration, as Efron computes it.
  l <- sapply(seq_along(x), function(i) statistic(x[-i], seq_len(length(x) - 1)))
  u <- mean(l) - l
  ends <- boot.ci(b, conf = conf, type = "bca", L = u)$bca[4:5]
  list(values = x, confidence = conf, estimate = b$t0, low = ends[1], high = ends[2],
    z0 = qnorm((mean(b$t < b$t0) + mean(b$t <= b$t0)) / 2), acceleration = sum(u^3) / (6 * sum(u^2)^1.5))
}
# Delays with two peaks (a cache hit or a miss), in microseconds.
peaks <- round(c(rnorm(34, 0.35, 0.02), rnorm(21, 0.45, 0.02), 1.9, 2.4), 4)
peaks <- sample(peaks)
later <- round(c(rnorm(20, 0.35, 0.02), rnorm(35, 0.45, 0.02), 2.1), 4)

a <- round(rnorm(14, 10, 1), 3)
b <- round(rnorm(11, 10.2, 2), 3)
one_sided <- function(low, high, ...) {
  l <- t.test(..., mu = low, alternative = "greater")
  h <- t.test(..., mu = high, alternative = "less")
  ci <- t.test(..., conf.level = 0.90)
  list(p_low = l$p.value, p_high = h$p.value, df = unname(l$parameter), low = ci$conf.int[1], high = ci$conf.int[2])
}
tost_case <- list(a = a, b = b, welch = one_sided(-1.5, 1, a, b), pooled = one_sided(-1.5, 1, a, b, var.equal = TRUE),
  paired = one_sided(-1.5, 1, a[1:11], b, paired = TRUE), one = one_sided(9.5, 10.5, a))
t_case <- list(values = a, low = t.test(a)$conf.int[1], high = t.test(a)$conf.int[2])

write("interval", list(variance = one(spatial, v, 0.90), mean = one(peaks, function(x, i) mean(x[i]), 0.95),
  sd = one(peaks, function(x, i) sd(x[i]), 0.95), later = later, tost = tost_case, t = t_case))
