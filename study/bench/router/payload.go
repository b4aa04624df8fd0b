package main

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"strconv"
	"strings"
)

// Payloads that fit an Ethernet packet of either family and are at least D-ITG's minimum.
const (
	leastPayload = 20
	mostPayload  = 1452
)

var errPayload = errors.New("invalid payload")

// payload is a distribution of payload lengths.
type payload struct {
	mean float64
	draw func(random *rand.Rand) float64
}

// parsePayload reads "550", "gaussian:MEAN:DEVIATION" or "pareto:SHAPE:SCALE", in bytes.
func parsePayload(text string) (payload, error) {
	words := strings.Split(text, ":")
	var numbers []float64
	for _, word := range words {
		if n, err := strconv.ParseFloat(word, 64); err == nil && n > 0 && !math.IsInf(n, 0) {
			numbers = append(numbers, n)
		}
	}
	switch {
	case len(words) == 1 && len(numbers) == 1 && numbers[0] >= leastPayload && numbers[0] <= mostPayload:
		return payload{numbers[0], func(*rand.Rand) float64 { return numbers[0] }}, nil
	case words[0] == "gaussian" && len(words) == 3 && len(numbers) == 2:
		return payload{numbers[0], func(r *rand.Rand) float64 { return numbers[0] + numbers[1]*r.NormFloat64() }}, nil
	case words[0] == "pareto" && len(words) == 3 && len(numbers) == 2 && numbers[0] > 1:
		return payload{numbers[0] * numbers[1] / (numbers[0] - 1), func(r *rand.Rand) float64 {
			return numbers[1] * math.Pow(1-r.Float64(), -1/numbers[0])
		}}, nil
	}
	return payload{}, fmt.Errorf("%w %q: want bytes from %d to %d, gaussian:MEAN:DEVIATION or pareto:SHAPE:SCALE", errPayload, text, leastPayload, mostPayload)
}

// lengths draws n payloads, the same for the same seed, clamped to the valid range.
func (p payload) lengths(n int, seed uint64) []uint16 {
	random := rand.New(rand.NewPCG(seed, 3))
	all := make([]uint16, n)
	for i := range all {
		all[i] = uint16(min(max(p.draw(random), leastPayload), mostPayload))
	}
	return all
}

// headers of a packet of UDP in an Ethernet frame without check sequence, as the paper counts rates.
func headers(family int) int {
	if family == 6 {
		return 14 + 40 + 8
	}
	return 14 + 20 + 8
}
