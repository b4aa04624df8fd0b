//go:build long

package destination

import (
	"net/netip"
	"testing"
	"time"

	"pillion.dev/wire"
)

// TestLongKeysOfAPeer: each peer has keys of its own, several while sessions come and go.
func TestLongKeysOfAPeer(t *testing.T) {
	first, second := wire.Key{1}, wire.Key{2}
	for name, w := range taggers(t) {
		from := keyOf(w.packet).Src
		peer := netip.PrefixFrom(from, from.BitLen())
		d := openTC(t, Settings{Peers: Peers{peer: {Keys: []wire.Key{first}}}})
		number := uint32(1 << 16)
		check := func(key wire.Key, want string) {
			t.Helper()
			w.key = key
			if got := d.verdict(t, 0, w.write(t, number, true, time.Now())); got != want {
				t.Errorf("%s: key %d: %s, want %s", name, key[0], got, want)
			}
			number++
		}
		check(first, "marked")
		check(second, "forged")
		if err := d.Accept(Peers{peer: {Keys: []wire.Key{first, second}}}, nil); err != nil {
			t.Fatal(err)
		}
		check(second, "marked")
		check(first, "marked")
		if err := d.Accept(Peers{peer: {Keys: []wire.Key{second}}}, nil); err != nil {
			t.Fatal(err)
		}
		check(first, "forged")
		check(second, "marked")
		if err := d.Accept(Peers{netip.MustParsePrefix("203.0.113.1/32"): {}}, nil); err != nil {
			t.Fatal(err)
		}
		check(second, "peer")
	}
}
