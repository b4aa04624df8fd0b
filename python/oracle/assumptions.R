# Tests of assumptions: Breusch and Pagan's (lmtest), Shapiro and Wilk's, Kolmogorov and Smirnov's.
source("write.R")
suppressPackageStartupMessages(library(lmtest))
bp <- function(...) {
  t <- bptest(...)
  list(statistic = unname(t$statistic), df = unname(t$parameter), p = unname(t$p.value))
}
test <- function(t) list(statistic = unname(t$statistic), p = t$p.value)
d <- warpbreaks
x <- round(rexp(40), 4)
y <- round(rnorm(25, 1), 4)
write("assumptions", list(
  warpbreaks = list(data = frame(d), additive = bp(breaks ~ wool + tension, data = d), crossed = bp(breaks ~ wool * tension, data = d)),
  x = x, y = y, shapiro_x = test(shapiro.test(x)), shapiro_y = test(shapiro.test(y)),
  ks_two = test(ks.test(x, y)), ks_one = test(ks.test(x, "pexp"))))
