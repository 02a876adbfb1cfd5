# Record what R computes: `Rscript r_table.R > r_table.json` in this folder. R is needed for nothing else.
#
# Written to r_table.json beside it by (sessionInfo):
#   R version 4.2.2 Patched (2022-11-10 r83330), x86_64-pc-linux-gnu (64-bit), Debian GNU/Linux 12 (bookworm)
#   rms 6.5-0, pROC 1.18.0, CalibratR 0.1.2, jsonlite 1.8.4 (packages r-cran-rms, r-cran-proc, r-cran-calibratr,
#   r-cran-jsonlite of Debian)
#
# ResourceSelection and givitiR are no packages of Debian: the test of Hosmer and Lemeshow is written here with R's own
# quantile and cut, as hoslem.test is.
suppressMessages({library(rms); library(pROC); library(CalibratR); library(jsonlite)})

# Rows without random numbers: the same to the last bit in test_r.py.
i <- 1:400
s <- ((149 * i) %% 401 + 0.25) / 401.5
u <- ((263 * i * i + 17 * i) %% 409) / 409
y <- as.integer(u < 0.1 + 0.75 * s * s * (3 - 2 * s))
# A portfolio of fewer defaults than it expects in some of five grades, and of more in others.
pd <- s / 5
default <- as.integer(u < (0.08 + 0.06 * (i %% 5)) * s)
grade <- i %% 5

exact <- glm.control(epsilon = 1e-15, maxit = 100)
z <- qlogis(s)
# Of weights at the coefficients themselves: those of a fit are of the step before the last.
errors <- function(fit) unname(sqrt(diag(vcov(update(fit, start = coef(fit))))))
shift <- glm(y ~ 1, family = binomial, offset = z, control = exact)
line <- glm(y ~ z, family = binomial, control = exact)
ratio <- 2 * (as.numeric(logLik(line)) - sum(dbinom(y, 1, s, log = TRUE)))

of_scores <- unname(val.prob(s, y, pl = FALSE)[c("U:Chi-sq", "U:p", "Brier", "Intercept", "Slope", "S:z", "S:p")])

curve <- roc(y, s, direction = "<", quiet = TRUE)

groups <- cut(s, quantile(s, (0:10) / 10), include.lowest = TRUE)
observed <- xtabs(cbind(1 - y, y) ~ groups)
expected <- xtabs(cbind(1 - s, s) ~ groups)
hosmer <- sum((observed - expected)^2 / expected)

ordered <- order(s)
isotonic <- isoreg(s[ordered], y[ordered])$yf
brier <- function(p, o) mean((p - o)^2)
log_loss <- function(p, o) -mean(ifelse(o == 1, log(p), log1p(-p)))
corp <- function(score) {
  of <- c(score(s, y), score(isotonic, y[ordered]), score(mean(y), y))
  list(score = of[1], miscalibration = of[1] - of[2], discrimination = of[3] - of[2], uncertainty = of[3])
}

of_grades <- lapply(sort(unique(grade)), function(g) {
  n <- sum(grade == g); k <- sum(default[grade == g]); mean_pd <- mean(pd[grade == g])
  list(count = n, defaults = k, pd = mean_pd,
       binomial = binom.test(k, n, mean_pd, alternative = "greater")$p.value,
       jeffreys = pbeta(mean_pd, k + 0.5, n - k + 0.5), bound = qbeta(0.95, k + 1, n - k))
})

bins <- cut(s, (0:10) / 10, include.lowest = TRUE)
size <- as.vector(table(bins)); chance <- as.vector(tapply(s, bins, mean))

cat(toJSON(list(
  rows = list(events = sum(y), places = sum(i * y), defaults = sum(default), scores = sum(s)),
  glm = list(intercept = unname(coef(shift)), intercept_error = errors(shift), slope = unname(coef(line)[2]),
             slope_error = errors(line)[2], free_intercept = unname(coef(line)[1]), statistic = ratio,
             pvalue = pchisq(ratio, 2, lower.tail = FALSE)),
  val_prob = setNames(as.list(of_scores), c("statistic", "pvalue", "brier", "free_intercept", "slope", "z", "z_pvalue")),
  roc = list(auc = as.numeric(auc(curve)), variance = var(curve, method = "delong")),
  hosmer_lemeshow = list(statistic = hosmer, pvalue = pchisq(hosmer, 10, lower.tail = FALSE),
                         pvalue_of_same_data = pchisq(hosmer, 8, lower.tail = FALSE)),
  equal_mass = list(ece = CalibratR:::getECE(y, s, 10), largest_share = CalibratR:::getMCE(y, s, 10)),
  corp = list(brier = corp(brier), log = corp(log_loss)),
  grades = of_grades,
  consistency_bars = list(low = qbinom(0.025, size, chance) / size, high = qbinom(0.975, size, chance) / size)
), auto_unbox = TRUE, digits = NA, pretty = 1), "\n", sep = "")
