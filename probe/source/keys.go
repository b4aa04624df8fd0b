package source

import (
	"errors"
	"fmt"
	"maps"
	"net/netip"

	"github.com/cilium/ebpf"

	"pillion.dev/probe/flow"
	"pillion.dev/wire"
)

// KeysMax is how many keys there can be at once; each takes up to 100 bytes.
const KeysMax = 131072

// ErrKeys refuses keys of a source whose marks carry no tag, or too many.
var ErrKeys = errors.New("bad keys")

// SetKeys replaces the keys by the destinations that share them with this host. The longest
// prefix that contains a destination counts; packets to others stay unmarked.
func (s *Source) SetKeys(keys map[netip.Prefix]wire.Key) error {
	if !s.tagged {
		return fmt.Errorf("set keys: %w: marks carry no tag", ErrKeys)
	}
	if len(keys) > KeysMax {
		return fmt.Errorf("set keys: %w: %d, at most %d", ErrKeys, len(keys), KeysMax)
	}
	if maps.Equal(keys, s.keys) {
		return nil
	}
	for prefix, key := range keys {
		if before, ok := s.keys[prefix]; ok && before == key {
			continue
		}
		if err := s.objects.PairKeys.Put(flow.NewHostPrefix(prefix), sourceMarkKey{Words: key.Words()}); err != nil {
			return fmt.Errorf("set key of %v: %w", prefix, err)
		}
	}
	for prefix := range s.keys {
		if _, ok := keys[prefix]; ok {
			continue
		}
		if err := s.objects.PairKeys.Delete(flow.NewHostPrefix(prefix)); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove key of %v: %w", prefix, err)
		}
	}
	s.keys = maps.Clone(keys)
	return s.changed()
}
