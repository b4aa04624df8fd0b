package ledger

import (
	"fmt"
	"slices"

	"pillion.dev/archive"
	"pillion.dev/internal/quota"
	"pillion.dev/measure"
)

// StreamsMost limits the tables that agents can create.
const StreamsMost = 1000

// Catalog has the schemas of an archive's tables, and who made them. The archive guards it.
type Catalog struct {
	Schemas map[string]*measure.Schema
	// Shapes are the streams that an agent created or extended, with the number of columns
	// that it added.
	Shapes map[string]map[string]int
	// Declared are streams that the server itself declares.
	Declared map[string]bool
}

// NewCatalog returns an empty catalog.
func NewCatalog() *Catalog {
	return &Catalog{Schemas: map[string]*measure.Schema{}, Shapes: map[string]map[string]int{}, Declared: map[string]bool{}}
}

// AddShape notes columns that an agent added to a stream.
func (k *Catalog) AddShape(agent, stream string, columns int) {
	if k.Shapes[agent] == nil {
		k.Shapes[agent] = map[string]int{}
	}
	k.Shapes[agent][stream] += columns
}

// Drop forgets a stream.
func (k *Catalog) Drop(stream string) {
	delete(k.Schemas, stream)
	for _, shapes := range k.Shapes {
		delete(shapes, stream)
	}
}

// merge returns a schema that can hold the rows of both; new fields are appended.
func merge(have, got *measure.Schema) (*measure.Schema, error) {
	out, _, err := measure.Widen(have, got)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", archive.ErrSchema, err)
	}
	return out, check(out)
}

// check validates a schema for the archive.
func check(s *measure.Schema) error {
	if err := s.Validate(); err != nil {
		return fmt.Errorf("%w: %w", archive.ErrSchema, err)
	}
	if s.Index(archive.AgentColumn) >= 0 {
		return fmt.Errorf("%w: column %q of %q: the name is reserved", archive.ErrSchema, archive.AgentColumn, s.Name)
	}
	return nil
}

// conform checks a batch of a stream whose columns the server defines: agents neither
// add columns nor change types. A column that this version does not know is refused
// temporarily: the batch is kept until the server is upgraded.
func conform(have, got *measure.Schema) error {
	want, err := merge(have, got)
	if err != nil {
		return err
	}
	for i, f := range want.Fields {
		if i >= len(have.Fields) {
			return fmt.Errorf("%w: %q has no column %q in this server: upgrade the server, or the agent sends what is not Pillion's", archive.ErrUnknownColumn, have.Name, f.Name)
		}
		if f.Type != have.Fields[i].Type {
			return fmt.Errorf("%w: column %q of %q is %v, not %v", archive.ErrSchema, f.Name, have.Name, have.Fields[i].Type, got.Fields[got.Index(f.Name)].Type)
		}
	}
	return nil
}

// admit returns the schema of the table that a batch needs, within its agent's quotas.
func (k *Catalog) admit(c *Commit, b *archive.Batch, limits archive.Quota) (want *measure.Schema, changed bool, err error) {
	have := c.Schemas[b.Stream]
	if have == nil {
		have = k.Schemas[b.Stream]
	}
	known := have != nil
	if standard := measure.FindStandard(b.Stream); standard != nil {
		if !known {
			// The schema is the standard one for all agents, so that the first agent to send a standard stream
			// cannot choose column types that do not match the types of all others.
			have = standard
		}
		if b.Agent != archive.OwnAgent {
			if err := conform(have, b.Schema); err != nil {
				return nil, false, err
			}
			b = &archive.Batch{Agent: archive.OwnAgent, Key: b.Key, Schema: have} // what the table lacks is the server's
		}
	}
	if have == nil && len(k.Schemas)+len(c.Schemas) >= StreamsMost {
		return nil, false, fmt.Errorf("store batch of %q: %w: limit of %d streams reached", b.Stream, archive.ErrSchema, StreamsMost)
	}
	want = b.Schema
	if have != nil {
		if want, err = merge(have, b.Schema); err != nil {
			return nil, false, err
		}
	}
	if i := b.Schema.Index(archive.ArrivalColumn); !known && i >= 0 && b.Schema.Fields[i] != archive.ArrivalField {
		return nil, false, fmt.Errorf("%w: column %q of %q: the name is reserved", archive.ErrSchema, archive.ArrivalColumn, b.Stream)
	}
	want = withArrival(want)
	before := 0
	if known {
		before = len(have.Fields)
	}
	if added := len(want.Fields) - before; added > 0 && b.Agent != archive.OwnAgent {
		if want.Index(archive.ArrivalColumn) >= before {
			added--
		}
		if err := k.admitColumns(c, b, added, limits); err != nil {
			return nil, false, err
		}
	}
	return want, !known || have.Doc != want.Doc || !slices.Equal(have.Fields, want.Fields), check(want)
}

func (k *Catalog) admitColumns(c *Commit, b *archive.Batch, added int, limits archive.Quota) error {
	if added == 0 {
		return nil
	}
	streams, columns := map[string]bool{b.Stream: true}, added
	for _, shapes := range []map[string]int{k.Shapes[b.Agent], c.Shapes[b.Agent]} {
		for stream, n := range shapes {
			streams[stream] = true
			columns += n
		}
	}
	if limit := limits.Streams; len(streams) > limit {
		return &quota.Error{Quota: "streams", Limit: int64(limit), Unit: "streams for each agent", What: fmt.Sprintf("create stream %q", b.Stream)}
	}
	if limit := limits.Columns; columns > limit {
		return &quota.Error{Quota: "columns", Limit: int64(limit), Unit: "columns for each agent", What: fmt.Sprintf("add %d columns to stream %q", added, b.Stream)}
	}
	if c.Shapes[b.Agent] == nil {
		c.Shapes[b.Agent] = map[string]int{}
	}
	c.Shapes[b.Agent][b.Stream] += added
	return nil
}

// withArrival returns the schema of a table, which has the time of arrival.
func withArrival(s *measure.Schema) *measure.Schema {
	if s.Index(archive.ArrivalColumn) >= 0 {
		return s
	}
	return &measure.Schema{Name: s.Name, Doc: s.Doc, Fields: append(slices.Clone(s.Fields), archive.ArrivalField)}
}
