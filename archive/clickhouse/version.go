package clickhouse

import (
	"context"
	"fmt"
	"strings"

	driver "github.com/ClickHouse/clickhouse-go/v2"

	"pillion.dev/measure"
)

// features are the differences between versions of ClickHouse. Whatever depends on the
// version is decided here.
type features struct {
	major, minor uint64
	// codecs of columns.
	codecs bool
	// tokens: an insert is recognised by its token, not by its content, and tables without
	// replicas have a window of tokens too.
	tokens bool
	// mutationsSync: ALTER … DELETE can wait until it is done.
	mutationsSync bool
	// lastPartStays: rows of the part that was last inserted with a quorum are removed only after
	// the next insert.
	lastPartStays bool
	// lowCardinalityFlag: the type is behind a setting.
	lowCardinalityFlag bool
	// timestamps and booleans are types of columns.
	timestamps, booleans bool
	// replaceViews: CREATE OR REPLACE VIEW; definers: views read with their creator's rights.
	replaceViews, definers bool
}

// identify asks a node for its version.
func (n *node) identify(ctx context.Context) (*features, error) {
	n.mutex.Lock()
	defer n.mutex.Unlock()
	if n.server != nil {
		return n.server, nil
	}
	v, err := n.ServerVersion()
	if err != nil {
		return nil, fmt.Errorf("connect to %s: %w", n.address, err)
	}
	n.server = featuresOf(v.Version.Major, v.Version.Minor)
	return n.server, nil
}

func featuresOf(major, minor uint64) *features {
	since := func(a, b uint64) bool { return major > a || major == a && minor >= b }
	return &features{
		major: major, minor: minor,
		codecs: since(20, 3), tokens: since(22, 3), mutationsSync: since(20, 3), lowCardinalityFlag: !since(19, 12), lastPartStays: !since(20, 3),
		timestamps: since(22, 3), booleans: since(22, 3), replaceViews: since(21, 3), definers: since(24, 2),
	}
}

// session are the settings of statements that create and alter.
func (f *features) session() driver.Settings {
	s := driver.Settings{}
	if f.lowCardinalityFlag {
		s["allow_experimental_low_cardinality_type"] = 1
	} else {
		s["allow_suspicious_low_cardinality_types"] = 1
	}
	if f.mutationsSync {
		s["mutations_sync"], s["alter_sync"] = 2, 2
	}
	return s
}

// insert are the settings of an insert. A quorum of one is none.
func (f *features) insert(token string, quorum int) driver.Settings {
	s := driver.Settings{"insert_deduplicate": 1}
	if quorum > 1 {
		s["insert_quorum"], s["insert_quorum_timeout"] = quorum, quorumTimeoutMs
	}
	if f.lowCardinalityFlag {
		s["allow_experimental_low_cardinality_type"] = 1
	}
	if f.tokens {
		// Off by default only in earlier versions; the sequential quorum is what
		// select_sequential_consistency goes by.
		s["async_insert"], s["insert_quorum_parallel"], s["insert_deduplication_token"] = 0, 0, token
		if quorum <= 1 {
			s["fsync_after_insert"] = 1
		}
	}
	return s
}

// quorumTimeoutMs is how long an insert waits for its quorum. Until then it cannot be killed,
// and a new owner of its lane waits.
const quorumTimeoutMs = 3_000

// codec of a column, with its keyword.
func (f *features) codec(t measure.Type) string {
	if !f.codecs {
		return ""
	}
	if t == measure.Time {
		return " CODEC(Delta, ZSTD(1))"
	}
	return " CODEC(ZSTD(1))"
}

// tableSettings end the definition of a table, with others.
func (f *features) tableSettings(replicated bool, all ...string) string {
	if f.tokens {
		window := "non_replicated_deduplication_window"
		if replicated {
			window = "replicated_deduplication_window"
		}
		all = append(all, fmt.Sprintf("%s = %d", window, deduplicationWindow))
	}
	if len(all) == 0 {
		return ""
	}
	return " SETTINGS " + strings.Join(all, ", ")
}

// deduplicationWindow is the number of inserts of a table that are recognised. Lanes of a
// shard share it.
const deduplicationWindow = 10_000
