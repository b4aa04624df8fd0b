package query

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure/flows"
)

// flowKeys are the columns of a flow by granularity, with what stands for those that
// are put together.
var flowKeys = map[string][]expression{
	"flow":      {summed("src"), summed("dst"), summed("proto"), summed("sport"), summed("dport")},
	"host-port": {summed("src"), summed("dst"), summed("proto"), noPort, summed("dport")},
	"pair":      {summed("source"), summed("agent"), noText, noPort, noPort},
	"host":      {summed("src"), summed("dst"), noText, noPort, noPort},

	"protocol":      {summed("source"), summed("agent"), summed("proto"), noPort, noPort},
	"host-protocol": {summed("src"), summed("dst"), summed("proto"), noPort, noPort},
}

func noText(r Representation) string { return sql(r.Constant, "''") }
func noPort(r Representation) string { return sql(r.Constant, r.Int(0)) }

// flowNames are the names of the key columns.
const flowNames = "k0, k1, k2, k3, k4"

// Flows answers archive.Flows.
func Flows(ctx context.Context, e Engine, question archive.Flows) (archive.FlowsAnswer, error) {
	f, err := answer.NewFlows(question)
	if err != nil {
		return archive.FlowsAnswer{}, err
	}
	plan, err := survey(ctx, e, &f.Survey)
	if err != nil {
		return archive.FlowsAnswer{}, err
	}
	if f.Elect(); f.Rows > 0 {
		if err := readFlows(ctx, e, f, plan.Source(&f.Survey, 0)); err != nil {
			return archive.FlowsAnswer{}, err
		}
	}
	return f.Answer(), nil
}

// flowsReader asks the questions of one answer.
type flowsReader struct {
	e      Engine
	of     *answer.Flows
	source Source
	keys   []expression
	// sql reads the sums. Its parts: group has the groups without the limit, ranking their order's value, order the
	// order and the limit.
	sql, named, group, ranking, order string
	// hashes of the flows that were found.
	hashes []int64
}

func readFlows(ctx context.Context, e Engine, f *answer.Flows, source Source) error {
	q := newFlowsReader(e, f, source)
	if f.All() {
		return q.readAll(ctx)
	}
	if err := q.readSums(ctx); err != nil {
		return err
	}
	if f.Read() == f.Limit {
		count := fmt.Sprintf("SELECT %s FROM (SELECT %s %s)", sql(e.Dialect().ToInt, "count()"), q.named, q.group)
		if err := e.Read(ctx, count, nil, answer.Each(func(r answer.Row) { f.Found = r.Int(0) })); err != nil {
			return err
		}
	}
	return q.readHistograms(ctx)
}

func newFlowsReader(e Engine, f *answer.Flows, source Source) *flowsReader {
	q := &flowsReader{e: e, of: f, source: source, keys: flowKeys[f.Question.Granularity]}
	from, r, of := source.grouped(q.keys, append([]string{"begun", "ended"}, sumNames...)...)
	named := make([]string, len(of))
	for i := range of {
		named[i] = fmt.Sprintf("%s AS k%d", of[i], i)
	}
	q.named, q.group = strings.Join(named, ", "), from+" GROUP BY "+flowNames
	if f.Question.Search != "" {
		q.group += " HAVING (" + sql(r.Matches, r.Literal(f.Question.Search))
		for i, addresses := range [][]string{f.Question.SearchSrc, f.Question.SearchDst} {
			if len(addresses) > 0 {
				q.group += " OR " + r.In(fmt.Sprintf("k%d", i), addresses)
			}
		}
		q.group += ")"
	}
	direction := "ASC"
	if f.Descending {
		direction = "DESC"
	}
	q.order = fmt.Sprintf("ORDER BY ranking IS NULL, ranking %s, %s LIMIT %d", direction, flowNames, f.Limit)
	q.ranking = r.Expand(r.Orders[f.Order]) + " AS ranking"
	q.sql = fmt.Sprintf("SELECT %s AS hash, %s, min(%s) AS first_ns, max(%s) AS last_ns, %s, %s %s %s",
		r.hashOf(strings.Join(of, ", ")), q.named, r.Of("begun"), r.Of("ended"), q.ranking, r.sums(), q.group, q.order)
	return q
}

func (q *flowsReader) readSums(ctx context.Context) error {
	return q.e.Read(ctx, q.sql, nil, answer.Each(func(r answer.Row) {
		q.hashes = append(q.hashes, r.Int(0))
		q.of.ReadSum(r)
	}))
}

// readHistograms reads the histograms of the flows that were found.
func (q *flowsReader) readHistograms(ctx context.Context) error {
	f, places := q.of, q.of.Places()
	if len(places) == 0 {
		return nil
	}
	if f.Found > int64(f.Limit) || f.Question.Search != "" {
		chosen := listOf(q.e.Dialect(), places)
		q.source = q.source.and(func(r Representation) string {
			keys := strings.Join(keysOf(q.keys, r), ", ")
			if len(places) > chosenMost {
				return sql(r.Tuple, keys, flowNames, fmt.Sprintf("FROM (SELECT %s, %s %s %s)", q.named, q.ranking, q.group, q.order))
			}
			return "(" + keys + ") IN (" + chosen + ")"
		})
	}
	if byHash := placesOf(q.hashes); len(byHash) == len(q.hashes) {
		return q.byHash(ctx, f.Every(), func(hash int64) *flows.Sum { return found(f, byHash, hash) })
	}
	return q.byKeys(ctx)
}

// readAll reads the sums and histograms of all flows at once.
func (q *flowsReader) readAll(ctx context.Context) error {
	g, ctx := group(ctx, q.e)
	summed, unique := make(chan struct{}), false
	var places map[int64]int64
	g.Go(func() error {
		defer close(summed)
		err := q.readSums(ctx)
		places = placesOf(q.hashes)
		unique = len(places) == len(q.hashes)
		return err
	})
	g.Go(func() error {
		return q.byHash(ctx, 1, func(hash int64) *flows.Sum {
			if <-summed; !unique {
				return nil
			}
			return found(q.of, places, hash)
		})
	})
	err := g.Wait()
	if q.of.Every(); err != nil || unique {
		return err
	}
	return q.byKeys(ctx)
}

// byHash reads histograms by the hash of their keys.
func (q *flowsReader) byHash(ctx context.Context, every int64, sum func(hash int64) *flows.Sum) error {
	hash := func(r Representation) string { return r.hashOf(strings.Join(keysOf(q.keys, r), ", ")) }
	return readHistograms(ctx, q.e, q.source, []expression{hash}, every, func(r answer.Row) *flows.Sum { return sum(r.Int(0)) })
}

func (q *flowsReader) byKeys(ctx context.Context) error {
	places := q.of.Places()
	return readHistograms(ctx, q.e, q.source, q.keys, q.of.Every(), func(r answer.Row) *flows.Sum { return found(q.of, places, answer.FlowOf(r, 0)) })
}

// hashOf is the SQL of a number for the keys of a flow, by which histograms are grouped several
// times as fast as by the keys. It is rarely the same for two flows.
func (d *Dialect) hashOf(keys string) string { return sql(d.ToInt, sql(d.Hash, keys)) }

// placesOf are the places of hashes; fewer if two are the same.
func placesOf(hashes []int64) map[int64]int64 {
	places := make(map[int64]int64, len(hashes))
	for i, hash := range hashes {
		places[hash] = int64(i)
	}
	return places
}

// found is the sum of the flow with a key, or nil.
func found[K comparable](f *answer.Flows, places map[K]int64, key K) *flows.Sum {
	if place, known := places[key]; known {
		return f.Find(place)
	}
	return nil
}

// chosenMost is how many flows a statement names; of more it computes them again.
const chosenMost = 1000

// listOf flows in SQL, each a tuple of its keys; empty if they are too many.
func listOf(d *Dialect, places map[flows.Flow]int64) string {
	if len(places) > chosenMost {
		return ""
	}
	list := make([]string, 0, len(places))
	for f := range places {
		list = append(list, fmt.Sprintf("(%s, %s, %s, %s, %s)", d.Literal(f.Src), d.Literal(f.Dst), d.Literal(f.Proto), d.Int(int64(f.Sport)), d.Int(int64(f.Dport))))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
