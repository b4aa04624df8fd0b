# Permutational multivariate analysis of variance: vegan's adonis2 on its data dune and on
# simulated responses. Reference values of p have 99,999 permutations.
source("write.R")
suppressPackageStartupMessages(library(vegan))
data(dune)
data(dune.env)

table <- function(t) list(term = rownames(t), df = t[["Df"]], ss = t[["SumOfSqs"]], r2 = t[["R2"]], f = t[["F"]], p = t[["Pr(>F)"]])
times <- 99999
env <- dune.env
env$Moisture <- factor(env$Moisture, ordered = FALSE)
env$Use <- factor(env$Use, ordered = FALSE)
env$Manure <- NULL
run <- function(...) table(adonis2(..., permutations = times))
dune_case <- list(
  species = frame(dune), env = frame(env),
  sequential = run(dune ~ Management * A1, env),
  euclidean = run(dune ~ Management * A1, env, method = "euclidean"),
  marginal = run(dune ~ Management + A1 + Moisture, env, by = "margin"),
  interaction = run(dune ~ Management * A1, env, by = "margin"),
  blocks = run(dune ~ Management + A1, env, strata = env$Use),
  empty_cells = run(dune ~ Management * Use, env),
  bray = as.matrix(vegdist(dune)))

# Three responses of an unbalanced two-way layout, in blocks.
n <- c(6, 9, 4, 7)
d <- data.frame(a = factor(rep(rep(c("p", "q"), 2), n)), b = factor(rep(c("r", "s"), c(15, 11))),
  x = round(rnorm(26), 3))
d$block <- factor(paste0("k", sample(rep(1:4, length.out = 26))))
d$y1 <- round(5 + (d$a == "q") * 1.3 + rnorm(26), 3)
d$y2 <- round(9 + (d$b == "s") * 1.0 + 0.3 * d$y1 + rnorm(26), 3)
d$y3 <- round(2 + 0.4 * d$x + rnorm(26, sd = 2), 3)
y <- as.matrix(d[c("y1", "y2", "y3")])
multi_case <- list(data = frame(d),
  sequential = run(y ~ a * b, d, method = "euclidean"),
  reversed = run(y ~ b * a, d, method = "euclidean"),
  marginal = run(y ~ a + b + x, d, method = "euclidean", by = "margin"),
  blocks = run(y ~ a * b, d, method = "euclidean", strata = d$block))

write("permanova", list(dune = dune_case, multi = multi_case))
