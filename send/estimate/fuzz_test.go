package estimate_test

import (
	"encoding/json"
	"testing"

	"pillion.dev/send/estimate"
)

// Whatever the times are, each result can be written as JSON, which has no infinity.
func FuzzEstimate(f *testing.F) {
	f.Add(uint8(2), []byte("\x00\x00\x00\x01\x0c\x64\x00\x00\x00\x01\x0c\x64"))
	f.Add(uint8(40), make([]byte, 240))
	f.Fuzz(func(t *testing.T, length uint8, data []byte) {
		var trains []estimate.Train
		var train estimate.Train
		var sent, received int64
		for ; len(data) >= 3; data = data[3:] {
			sent, received = sent+int64(data[0]), received+int64(int8(data[1]))*10
			train = append(train, estimate.Packet{SentNS: sent, ReceivedNS: received, Size: int(data[2] / 2), Lost: data[2] == 255})
			if len(train) >= int(length) {
				trains, train = append(trains, train), nil
			}
		}
		var hops [][]estimate.Echo
		for _, train := range trains {
			var echoes []estimate.Echo
			for _, p := range train {
				echoes = append(echoes, estimate.Echo{Size: p.Size, RoundTripNS: p.ReceivedNS - p.SentNS})
			}
			hops = append(hops, echoes)
		}
		for _, result := range []any{estimate.EstimateCapacity(trains), estimate.EstimateAvailable(trains), estimate.EstimateChirps(trains), estimate.EstimateHops(hops)} {
			if _, err := json.Marshal(result); err != nil {
				t.Fatalf("%+v: %v", result, err)
			}
		}
	})
}
