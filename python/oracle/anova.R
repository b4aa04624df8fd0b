# Analysis of variance: Jain's 2^2 with replications, an unbalanced two-way layout in both orders
# and marginal, blocks with drift, a covariate.
source("write.R")

# Jain, The Art of Computer Systems Performance Analysis, example 18.1: memory and cache, three
# replications. Published: effects 41, 21.5, 9.5, 5; sums of squares 5547, 1083, 300 and 102 of
# 7032; shares 78.88, 15.40, 4.27 and 1.45 %.
jain <- data.frame(
  memory = factor(rep(c("4M", "16M", "4M", "16M"), each = 3), c("4M", "16M")),
  cache = factor(rep(c("1K", "1K", "2K", "2K"), each = 3), c("1K", "2K")),
  y = c(15, 18, 12, 45, 48, 51, 25, 28, 19, 75, 75, 81))
fit <- anova(lm(y ~ memory * cache, jain))
jain_case <- list(data = frame(jain), anova = rows(fit), share = 100 * fit[["Sum Sq"]] / sum(fit[["Sum Sq"]]))

# Unequal cells, no cell empty.
n <- c(3, 5, 2, 4, 6, 3)
unbalanced <- data.frame(
  a = factor(rep(rep(c("lo", "hi"), 3), n), c("lo", "hi")),
  b = factor(rep(rep(c("x", "y", "z"), each = 2), n)))
unbalanced$y <- round(10 + 2 * (unbalanced$a == "hi") + as.integer(unbalanced$b) * 1.5 +
  (unbalanced$a == "hi" & unbalanced$b == "z") * 2 + rnorm(nrow(unbalanced)), 3)
# Marginal: each term after all others that do not contain it, against the whole model's residual.
full <- lm(y ~ a * b, unbalanced)
after <- function(small, large) {
  t <- anova(lm(small, unbalanced), lm(large, unbalanced))
  c(df = t[2, "Df"], ss = t[2, "Sum of Sq"])
}
m <- rbind(a = after(y ~ b, y ~ a + b), b = after(y ~ a, y ~ a + b), "a:b" = after(y ~ a + b, y ~ a * b))
ms <- m[, "ss"] / m[, "df"]
f <- ms / (deviance(full) / df.residual(full))
marginal <- list(term = rownames(m), df = m[, "df"], ss = m[, "ss"], ms = ms, f = f,
  p = pf(f, m[, "df"], df.residual(full), lower.tail = FALSE))
unbalanced_case <- list(data = frame(unbalanced), ab = rows(anova(full)), ba = rows(anova(lm(y ~ b * a, unbalanced))),
  nested = rows(anova(lm(y ~ a / b, unbalanced))), cells = rows(anova(lm(y ~ a:b, unbalanced))),
  marginal = lapply(marginal, unname))

# Blocks with drift: each block holds every cell once, and everything slows from block to block.
drift <- expand.grid(block = 1:12, mark = c("none", "delay", "both"), every = c("1", "10"))
drift <- drift[order(drift$block), ]
drift$y <- round(100 - 3 * drift$block - 1.2 * (drift$mark == "both") + rnorm(nrow(drift)), 3)
drift$block <- paste0("b", drift$block)
# Permuted within blocks: all of F of the model without blocks, raw rows, 99,999 times.
t0 <- anova(lm(y ~ mark * every, drift))[["F value"]][1:3]
x <- lapply(list(~mark, ~mark + every, ~mark * every), function(f) qr(model.matrix(f, drift)))
reached <- c(0, 0, 0)
times <- 99999
groups <- split(seq_len(nrow(drift)), drift$block)
for (i in seq_len(times)) {
  y <- drift$y
  for (g in groups) y[g] <- y[sample(g)]
  rss <- c(sum((y - mean(y))^2), sapply(x, function(q) sum(qr.resid(q, y)^2)))
  f <- -diff(rss) / c(2, 1, 2) / (rss[4] / (nrow(drift) - 6))
  reached <- reached + (f >= t0 - 1e-9)
}
drift_case <- list(data = frame(drift), with = rows(anova(lm(y ~ block + mark * every, drift))),
  without = rows(anova(lm(y ~ mark * every, drift))), permuted = (reached + 1) / (times + 1))

# A covariate beside a factor, with slopes of their own.
slopes <- data.frame(g = factor(rep(c("u", "v", "w"), c(7, 9, 6))), x = round(runif(22, 100, 120), 2))
slopes$y <- round(3 + 0.4 * slopes$x * (1 + 0.2 * (slopes$g == "v")) + rnorm(22), 3)
slopes_case <- list(data = frame(slopes), crossed = rows(anova(lm(y ~ g * x, slopes))),
  nested = rows(anova(lm(y ~ g + g:x, slopes))), odd = rows(anova(lm(log(y) ~ x + g:x, slopes))))

write("anova", list(jain = jain_case, unbalanced = unbalanced_case, drift = drift_case, slopes = slopes_case))
