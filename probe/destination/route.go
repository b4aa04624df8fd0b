package destination

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"github.com/cilium/ebpf"

	"pillion.dev/probe/flow"
)

// OwnMax is how many prefixes of hosts behind this one there can be: OWN_PREFIXES_MAX of route.h.
const OwnMax = 1024

// ErrOwn refuses more prefixes than there is room for.
var ErrOwn = errors.New("bad prefixes behind this host")

// SetOwn replaces Settings.Own.
func (d *Destination) SetOwn(prefixes []netip.Prefix) error {
	if slices.Equal(prefixes, d.settings.Own) {
		return nil
	}
	before := d.settings.Own
	if err := d.setOwn(prefixes); err != nil {
		return err
	}
	d.settings.Own = slices.Clone(prefixes)
	for _, prefix := range before {
		if slices.Contains(prefixes, prefix) {
			continue
		}
		if err := d.objects.OwnPrefixes.Delete(flow.NewHostPrefix(prefix.Masked())); err != nil && !errors.Is(err, ebpf.ErrKeyNotExist) {
			return fmt.Errorf("remove prefix %v behind this host: %w", prefix, err)
		}
	}
	return d.FollowRoutes()
}

func (d *Destination) setOwn(prefixes []netip.Prefix) error {
	if n := len(prefixes); n > OwnMax {
		return fmt.Errorf("%w: %d, limit %d", ErrOwn, n, OwnMax)
	}
	for _, prefix := range prefixes {
		if err := d.objects.OwnPrefixes.Update(flow.NewHostPrefix(prefix.Masked()), uint8(1), ebpf.UpdateAny); err != nil {
			return fmt.Errorf("add prefix %v behind this host: %w", prefix, err)
		}
	}
	return nil
}

// FollowRoutes looks up again where the packets of each flow go: to this host or through it.
// Routes and addresses may have changed since the flow began.
func (d *Destination) FollowRoutes() error {
	d.peersState++
	if err := d.objects.PeersState.Set(d.peersState); err != nil {
		return fmt.Errorf("announce change of routes: %w", err)
	}
	return nil
}
