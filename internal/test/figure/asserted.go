//go:build verify

package figure

const asserted = true
