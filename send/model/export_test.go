package model

// Kolmogorov is for the comparison with an oracle.
var Kolmogorov = kolmogorov
