# What every oracle uses: write(name, list) makes NAME.json beside the script. Run all with
#   cd python/oracle && for f in [!w]*.R; do Rscript "$f"; done
# Packages of Debian 12: r-base-core, r-cran-vegan, r-cran-boot, r-cran-lmtest, r-cran-emmeans,
# r-cran-jsonlite. Tests read the JSON; R is not needed for them.
suppressPackageStartupMessages(library(jsonlite))
options(warn = 1)
set.seed(20261123)

write <- function(name, cases) {
  cases$versions <- c(R = paste(R.version$major, R.version$minor, sep = "."),
    sapply(intersect(c("vegan", "boot", "lmtest", "emmeans"), loadedNamespaces()),
      function(p) as.character(packageVersion(p))))
  writeLines(toJSON(cases, digits = NA, auto_unbox = TRUE, dataframe = "columns", na = "null"),
    paste0(name, ".json"))
}

# A data frame with factors as text and the order of their levels.
frame <- function(d) {
  levels <- lapply(Filter(is.factor, d), levels)
  list(columns = as.list(as.data.frame(lapply(d, function(x) if (is.factor(x)) as.character(x) else x))),
    levels = levels)
}

# An ANOVA table of aov or anova as terms with df, ss, ms, f, p.
rows <- function(t) {
  t <- as.data.frame(t)
  list(term = trimws(rownames(t)), df = t[["Df"]], ss = t[["Sum Sq"]], ms = t[["Mean Sq"]],
    f = t[["F value"]], p = t[["Pr(>F)"]])
}
