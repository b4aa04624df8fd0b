package wire_test

import (
	"testing"

	"pillion.dev/wire"
)

// modules has all sets of modules.
var modules = []wire.Module{wire.Delay, wire.Loss, wire.Delay | wire.Loss}

func TestParseModule(t *testing.T) {
	for _, test := range []struct {
		name, text string
		want       wire.Module
		ok         bool
	}{
		{"delay", "delay", wire.Delay, true},
		{"loss", "loss", wire.Loss, true},
		{"both", "delay,loss", wire.Delay | wire.Loss, true},
		{"both, other order", "loss,delay", wire.Delay | wire.Loss, true},
		{"empty", "", 0, false},
		{"none", "none", 0, false},
		{"twice", "loss,loss", 0, false},
		{"trailing comma", "loss,", 0, false},
		{"space", "delay, loss", 0, false},
		{"capital", "Delay", 0, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			got, err := wire.ParseModule(test.text)
			if got != test.want || (err == nil) != test.ok {
				t.Errorf("ParseModule(%q) = %v, %v", test.text, got, err)
			}
		})
	}
}

func TestNames(t *testing.T) {
	for _, set := range modules {
		if got, err := wire.ParseModule(set.String()); got != set || err != nil {
			t.Errorf("module %v came back as %v, %v", set, got, err)
		}
	}
	for _, e := range wire.Encodings() {
		if got, err := wire.ParseEncoding(e.String()); got != e || err != nil {
			t.Errorf("encoding %v came back as %v, %v", e, got, err)
		}
	}
	if e, err := wire.ParseEncoding("gre"); err == nil {
		t.Errorf("ParseEncoding(gre) = %v", e)
	}
	if list, err := wire.ParseEncodings("shim, native"); err != nil || list.String() != "shim,native" {
		t.Errorf("a list came back as %v, %v", list, err)
	}
	for _, text := range []string{"", "shim,", "shim,gre", "shim,native,shim"} {
		if list, err := wire.ParseEncodings(text); err == nil {
			t.Errorf("ParseEncodings(%q) = %v", text, list)
		}
	}
	for _, test := range []struct{ got, want string }{
		{wire.Module(0).String(), "none"},
		{wire.Module(7).String(), "Module(0x7)"},
		{wire.Encoding(10).String(), "Encoding(10)"},
	} {
		if test.got != test.want {
			t.Errorf("got %s, want %s", test.got, test.want)
		}
	}
}

func TestChoose(t *testing.T) {
	const ip4, ip6 = wire.ClassIPv4 | wire.ClassTCP, wire.ClassIPv6 | wire.ClassUDP
	list := wire.EncodingList{wire.Shim, wire.Native, wire.UDP}
	for _, test := range []struct {
		name  string
		class wire.Class
		want  wire.Encoding
		ok    bool
	}{
		{"the first that applies", ip4, wire.Shim, true},
		{"forwarded", ip4 | wire.ClassForwarded, wire.Shim, true},
		{"a segmentation buffer", ip4 | wire.ClassGSO, wire.UDP, true},
		{"IPv4 options", ip4 | wire.ClassExtended, wire.UDP, true},
		{"IPv6", ip6 | wire.ClassGSO | wire.ClassExtended, wire.Native, true},
	} {
		if got, ok := list.Choose(test.class); got != test.want || ok != test.ok {
			t.Errorf("%s: %v, %v, want %v", test.name, got, ok, test.want)
		}
	}
	if got, ok := list[:1].Choose(ip6); ok {
		t.Errorf("%v for IPv6", got)
	}
	if wire.Encoding(99).Applies(0) {
		t.Error("an unknown encoding applies")
	}
}

func TestOverhead(t *testing.T) {
	for _, test := range []struct {
		encoding          wire.Encoding
		delay, loss, both int
	}{
		{wire.Native, 24, 8, 32},
		{wire.Shim, 20, 8, 24},
		{wire.IPIP, 40, 28, 44},
		{wire.UDP, 48, 36, 52},
		{wire.UDPOption, 14, 14, 14},
		{wire.TCPOption, 12, 12, 12},
		{10, 0, 0, 0},
	} {
		for i, want := range []int{test.delay, test.loss, test.both} {
			if got := test.encoding.Overhead(modules[i]); got != want {
				t.Errorf("%v of %v adds %d, want %d", test.encoding, modules[i], got, want)
			}
		}
		if got := test.encoding.Overhead(0); got != 0 {
			t.Errorf("%v of nothing adds %d", test.encoding, got)
		}
	}
}

// TestSize covers what makes a mark larger than its modules.
func TestSize(t *testing.T) {
	for _, test := range []struct {
		name          string
		encoding      wire.Encoding
		modules       wire.Module
		tagged, flags bool
		options, want int
	}{
		{"plain", wire.Native, wire.Loss, false, false, 0, 8},
		{"delay", wire.Native, wire.Delay, false, false, 0, 24},
		{"aggregated", wire.Native, wire.Loss, false, true, 0, 16},
		{"aggregated, both modules", wire.Native, wire.Delay | wire.Loss, false, true, 0, 32},
		{"aggregated, with a tag", wire.Native, wire.Loss, true, true, 0, 16},
		{"sparse, with a tag", wire.Native, wire.Delay | wire.Loss, true, true, 0, 32},
		{"options of a module", wire.Native, wire.Delay, false, false, 14, 40},
		{"options, padded", wire.Native, wire.Delay | wire.Loss, true, true, 4, 40},
		{"a shim has its flags anyway", wire.Shim, wire.Loss, true, true, 5, 17},
		{"an option of a transport has no other", wire.TCPOption, wire.Loss, false, true, 5, 12},
		{"no module", wire.Native, 0, false, true, 5, 0},
	} {
		if got := test.encoding.Size(test.modules, test.tagged, test.flags, test.options); got != test.want {
			t.Errorf("%s: %d bytes, want %d", test.name, got, test.want)
		}
	}
}
