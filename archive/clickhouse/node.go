package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	driver "github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/proto"

	"pillion.dev/measure"
)

// node is one server of ClickHouse.
type node struct {
	address string
	// shard counts from 0; replica is the name in the coordination service's paths.
	shard int
	driver.Conn

	mutex sync.Mutex
	// founded: this node has the archive's own tables.
	founded bool
	// shaped has the streams whose tables this node has, as of the schema.
	shaped map[string]*measure.Schema
	server *features
	// reader runs users' statements; it is nil until the first.
	reader *node

	// viewing guards viewed, the streams that have a view, with the columns as of the schema.
	viewing sync.Mutex
	viewed  map[string]string
}

// connections to each node at most.
const (
	connectionsMost = 64
	dialMost        = 3 * time.Second
)

func (l *location) node(address string, shard int) (*node, error) {
	options := &driver.Options{
		Addr: []string{address}, Auth: driver.Auth{Database: l.home, Username: l.user, Password: l.password}, TLS: l.tls,
		DialTimeout: dialMost, ReadTimeout: readMost, MaxOpenConns: connectionsMost, MaxIdleConns: 8,
		Compression: &driver.Compression{Method: driver.CompressionLZ4},
	}
	c, err := driver.Open(options)
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", address, err)
	}
	return &node{address: address, shard: shard, Conn: c, shaped: map[string]*measure.Schema{}}, nil
}

// readMost is how long a server may be silent. It sends its progress more often.
const readMost = 60 * time.Second

// discover reads the topology from the first host that answers. Without a cluster it is one
// shard of one replica.
func (l *location) discover(ctx context.Context) (shards [][]*node, err error) {
	for _, host := range l.hosts {
		first, failed := l.node(host, 0)
		if failed != nil {
			return nil, failed
		}
		if l.cluster == "" {
			return [][]*node{{first}}, nil
		}
		shards, failed = l.topology(ctx, first)
		_ = first.Close()
		if failed == nil {
			return shards, nil
		}
		err = errors.Join(err, fmt.Errorf("ask %s: %w", host, failed))
	}
	return nil, err
}

func (l *location) topology(ctx context.Context, first *node) (shards [][]*node, err error) {
	rows, err := first.Query(ctx, "SELECT shard_num, host_name, port FROM system.clusters WHERE cluster = "+literal(l.cluster)+" ORDER BY shard_num, replica_num")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var shard uint32
		var host string
		var port uint16
		if err := rows.Scan(&shard, &host, &port); err != nil {
			return nil, err
		}
		for len(shards) < int(shard) {
			shards = append(shards, nil)
		}
		n, err := l.node(net.JoinHostPort(host, strconv.Itoa(int(port))), int(shard)-1)
		if err != nil {
			return nil, err
		}
		shards[shard-1] = append(shards[shard-1], n)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	if len(shards) == 0 || slices.ContainsFunc(shards, func(s []*node) bool { return len(s) == 0 }) {
		return nil, fmt.Errorf("cluster %q: not in system.clusters", l.cluster)
	}
	return shards, nil
}

// forget makes the next use check the columns of the node's table of a stream again.
func (n *node) forget(stream string) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	delete(n.shaped, stream)
}

// code is the number of a server's error; 0 for an error of the connection.
func code(err error) int32 {
	var said *proto.Exception
	if errors.As(err, &said) {
		return said.Code
	}
	return 0
}

// Numbers of errors that are handled.
const (
	codeColumnExists   = 44
	codeTableExists    = 57
	codeUnknownTable   = 60
	codeReadOnly       = 242
	codeTooManyParts   = 252
	codeQuorumPending  = 286
	codeFewReplicas    = 285
	codeUnknownOutcome = 319
	codeNotInQuorum    = 289
	codeKeeper         = 999 // an exception of the coordination service
	codeNoKeeper       = 225
	codeTimeout        = 159
	codeNoActive       = 254 // no active replicas
	codeUnkillable     = 380
	codeCancelled      = 394 // query was cancelled
)
