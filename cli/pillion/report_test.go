package pillion

import "testing"

func TestPercentage(t *testing.T) {
	for text, want := range map[string]float64{"0.1%": 0.001, "99.9%": 0.999, "100%": 1, "0%": 0} {
		var p percentage
		if err := p.UnmarshalText([]byte(text)); err != nil || float64(p) != want {
			t.Errorf("%s: %v, %v", text, p, err)
		}
	}
	for _, text := range []string{"", "%", "0.1", "101%", "-1%", "1e1%", "NaN%", "1 %", "0x1%"} {
		var p percentage
		if err := p.UnmarshalText([]byte(text)); err == nil {
			t.Errorf("%q is read as %v", text, p)
		}
	}
}

func FuzzPercentage(f *testing.F) {
	f.Add("99.9%")
	f.Fuzz(func(t *testing.T, text string) {
		var p percentage
		if p.UnmarshalText([]byte(text)) == nil && !(p >= 0 && p <= 1) {
			t.Errorf("%q is read as %v", text, p)
		}
	})
}
