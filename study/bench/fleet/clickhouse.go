package fleet

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"

	config "pillion.dev/internal/clickhouse"
	"pillion.dev/internal/free"
)

// ClickHouse is a server of ClickHouse with its files in a folder, on ports of the loopback address.
type ClickHouse struct {
	Cluster config.Cluster
	program *program
}

// StartClickHouse starts one and waits until it accepts connections.
func StartClickHouse(ctx context.Context, folder string) (*ClickHouse, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return nil, err
	}
	var ports [3]uint16
	for i := range ports {
		port, err := free.Find()
		if err != nil {
			return nil, err
		}
		ports[i] = uint16(port)
	}
	node := config.Node{Address: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), ports[0]), HTTP: ports[1], Interserver: ports[2]}
	s := &ClickHouse{Cluster: config.Cluster{Shards: [][]config.Node{{node}}}}
	command, err := s.Cluster.WriteNode(folder, 0, 0)
	if err != nil {
		return nil, err
	}
	if s.program, err = startProgram(folder, command...); err != nil {
		return nil, fmt.Errorf("start ClickHouse (make install-fleet installs it): %w", err)
	}
	if err := s.program.accepts(ctx, node.Address.String()); err != nil {
		s.Stop()
		return nil, fmt.Errorf("start ClickHouse: %w", err)
	}
	return s, nil
}

// Stop lets the server end, and kills it if that takes long: what was stored is stored.
func (s *ClickHouse) Stop() { s.program.stop() }
