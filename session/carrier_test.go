package session

import (
	"slices"
	"testing"
)

// TestValidateCarriers: the encodings must carry what the modules need.
func TestValidateCarriers(t *testing.T) {
	for _, row := range []struct {
		name   string
		change func(*Spec)
		want   []string
	}{
		{"delay of marks without a time", func(s *Spec) { s.Modules, s.Encoding = []string{"delay"}, "pdm" }, []string{"encoding"}},
		{"loss of marks without a time", func(s *Spec) { s.Modules, s.Encoding = []string{"loss"}, "pdm" }, nil},
		{"delay and loss in two encodings", func(s *Spec) { s.Encoding = "pdm,native" }, nil},
		{"round trips", func(s *Spec) { s.Modules, s.Encoding, s.Both = []string{"loss", "round-trip"}, "pdm,native", true }, nil},
		{"round trips of one direction", func(s *Spec) { s.Modules, s.Encoding = []string{"loss", "round-trip"}, "pdm" }, []string{"both"}},
		{"round trips of other marks", func(s *Spec) { s.Modules, s.Both = []string{"loss", "round-trip"}, true }, []string{"encoding"}},
		{"round trips of marks without numbers", func(s *Spec) { s.Modules, s.Encoding, s.Both = []string{"delay", "round-trip"}, "pdm,native", true }, []string{"modules[1]"}},
		{"round trips over IPv4", func(s *Spec) {
			s.Modules, s.Encoding, s.Both, s.Family = []string{"loss", "round-trip"}, "pdm,udp", true, "ipv4"
		}, []string{"family"}},
	} {
		t.Run(row.name, func(t *testing.T) {
			spec := good()
			row.change(&spec)
			var got []string
			for _, p := range spec.Validate() {
				got = append(got, p.Field)
			}
			if !slices.Equal(got, row.want) {
				t.Errorf("got problems with %q, want %q: %v", got, row.want, spec.Validate())
			}
		})
	}
}
