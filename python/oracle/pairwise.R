# Comparisons of pairs: TukeyHSD on R's data warpbreaks (balanced), emmeans where it is not, and
# the distribution of the studentized range.
source("write.R")
suppressPackageStartupMessages(library(emmeans))
pairs_of <- function(t) list(pair = rownames(t), difference = t[, "diff"], low = t[, "lwr"], high = t[, "upr"], p = t[, "p adj"])
hsd <- function(formula, term, data = warpbreaks, ...) lapply(pairs_of(TukeyHSD(aov(formula, data), term, ...)[[term]]), unname)
warp_case <- list(data = frame(warpbreaks),
  additive = hsd(breaks ~ wool + tension, "tension"),
  crossed = hsd(breaks ~ wool * tension, "tension"),
  cells = hsd(breaks ~ wool * tension, "wool:tension"),
  wool99 = hsd(breaks ~ wool + tension, "wool", conf.level = 0.99))

# One factor, unequal groups: Tukey and Kramer's own case.
chick <- droplevels(subset(chickwts, feed != "casein"))
oneway_case <- list(data = frame(chick), pairs = hsd(weight ~ feed, "feed", chick))

# Unbalanced with several terms: least squares means with Tukey's adjustment.
n <- c(3, 5, 2, 4, 6, 3)
d <- data.frame(a = factor(rep(rep(c("lo", "hi"), 3), n)), b = factor(rep(rep(c("x", "y", "z"), each = 2), n)))
d$x <- round(rnorm(nrow(d), 5), 3)
d$y <- round(4 + (d$a == "hi") + as.integer(d$b) * 0.9 + 0.5 * d$x + rnorm(nrow(d)), 3)
lsm <- function(formula, spec) {
  t <- as.data.frame(summary(pairs(emmeans(lm(formula, d), spec), reverse = TRUE), infer = c(TRUE, TRUE)))
  list(pair = gsub(" - ", "-", t$contrast), difference = t$estimate, low = t$lower.CL, high = t$upper.CL, p = t$p.value)
}
unbalanced_case <- list(data = frame(d), additive = lsm(y ~ a + b, ~b), crossed = suppressMessages(lsm(y ~ a * b, ~b)), covariate = lsm(y ~ a + b + x, ~b))

grid <- expand.grid(q = c(0.5, 2, 3.5, 6), k = c(2, 3, 8, 30), df = c(2, 9, 48, 3192))
range_case <- c(as.list(grid), list(p = ptukey(grid$q, grid$k, grid$df, lower.tail = FALSE)))
write("pairwise", list(warpbreaks = warp_case, oneway = oneway_case, unbalanced = unbalanced_case, range = range_case))
