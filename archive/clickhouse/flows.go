package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
	"pillion.dev/measure/flows"
)

// flowKeys are the columns of a flow by granularity, with what stands for those that
// are put together.
var flowKeys = map[string][]expression{
	"flow":      {summed("src"), summed("dst"), summed("proto"), summed("sport"), summed("dport")},
	"host-port": {summed("src"), summed("dst"), summed("proto"), constant("materialize(toInt64(0))"), summed("dport")},
	"pair":      {summed("source"), summed("agent"), constant("materialize('')"), constant("materialize(toInt64(0))"), constant("materialize(toInt64(0))")},
	"host":      {summed("src"), summed("dst"), constant("materialize('')"), constant("materialize(toInt64(0))"), constant("materialize(toInt64(0))")},

	"protocol":      {summed("source"), summed("agent"), summed("proto"), constant("materialize(toInt64(0))"), constant("materialize(toInt64(0))")},
	"host-protocol": {summed("src"), summed("dst"), summed("proto"), constant("materialize(toInt64(0))"), constant("materialize(toInt64(0))")},
}

// constant is not folded: parts of a union from other nodes would not match.
func constant(sql string) expression { return func(representation) string { return sql } }

func text(column string) string { return "toString(ifNull(" + column + ", ''))" }

// port reads a column whose type an agent can have widened.
func port(column string) string { return "toInt64(ifNull(" + column + ", 0))" }

// flowNames are those of the keys.
const flowNames = "k0, k1, k2, k3, k4"

// flowText is the text that a search matches.
const flowText = `lowerUTF8(concat(
	multiIf(k3 = 0, k0, position(k0, ':') > 0, concat('[', k0, ']:', toString(k3)), concat(k0, ':', toString(k3))), ' > ',
	multiIf(k4 = 0, k1, position(k1, ':') > 0, concat('[', k1, ']:', toString(k4)), concat(k1, ':', toString(k4))), ' ', k2))`

// flowOrders are the SQL of orders that need no histogram, null for flows without a value.
// Names in braces stand for the values of summands.
var flowOrders = map[string]string{
	"packets": counted("{packets}"), "bytes": counted("{bytes}"),
	"lost": "if(" + saturated("{expected}") + " = 0, NULL, sum(toFloat64(ifNull({lost}, 0))) / sum(toFloat64(ifNull({expected}, 0))))",
	"max":  "if(countIf({delay_count} > 0) = 0, NULL, maxIf({delay_max_ns}, {delay_count} > 0))", "last": "max({ended})",
}

// counted is null if no row has a value.
func counted(column string) string {
	return "if(count(" + column + ") = 0, NULL, " + saturated(column) + ")"
}

// Flows implements archive.Archive.
func (a *Archive) Flows(ctx context.Context, question archive.Flows) (archive.FlowsAnswer, error) {
	f, err := answer.NewFlows(question)
	if err != nil {
		return archive.FlowsAnswer{}, err
	}
	if _, err := a.schema(ctx, measure.Flows.Name); errors.Is(err, archive.ErrUnknown) {
		return f.Answer(), nil
	} else if err != nil {
		return archive.FlowsAnswer{}, err
	}
	plan, err := a.survey(ctx, &f.Survey)
	if err != nil {
		return archive.FlowsAnswer{}, err
	}
	if f.Elect(); f.Rows > 0 {
		if err := a.readFlows(ctx, f, plan.source(&f.Survey, 0)); err != nil {
			return archive.FlowsAnswer{}, err
		}
	}
	return f.Answer(), nil
}

// flowsReader asks the questions of one answer.
type flowsReader struct {
	a      *Archive
	of     *answer.Flows
	source source
	keys   []expression
	// sql is that of the sums, whose groups group is without the limit, and order chooses.
	sql, named, group, ranking, order string
	// hashes are those of the flows that were found.
	hashes []int64
}

func (a *Archive) readFlows(ctx context.Context, f *answer.Flows, source source) error {
	r := a.newFlowsReader(f, source)
	if f.All() {
		return r.readAll(ctx)
	}
	if err := r.readSums(ctx); err != nil {
		return err
	}
	if f.Read() == f.Limit {
		sql := fmt.Sprintf("SELECT toInt64(count()) FROM (SELECT %s %s)", r.named, r.group)
		if err := a.read(ctx, sql, nil, answer.Each(func(r answer.Row) { f.Found = r.Int(0) })); err != nil {
			return err
		}
	}
	return r.readHistograms(ctx)
}

func (a *Archive) newFlowsReader(f *answer.Flows, source source) *flowsReader {
	q := &flowsReader{a: a, of: f, source: source, keys: flowKeys[f.Question.Granularity]}
	from, r, of := source.grouped(q.keys, append([]string{"begun", "ended"}, sumNames...)...)
	named := make([]string, len(of))
	for i := range of {
		named[i] = fmt.Sprintf("%s AS k%d", of[i], i)
	}
	q.named, q.group = strings.Join(named, ", "), from+" GROUP BY "+flowNames
	if f.Question.Search != "" {
		q.group += " HAVING (position(" + flowText + ", lowerUTF8(" + literal(f.Question.Search) + ")) > 0"
		for i, addresses := range [][]string{f.Question.SearchSrc, f.Question.SearchDst} {
			if len(addresses) > 0 {
				q.group += fmt.Sprintf(" OR k%d IN (%s)", i, literals(addresses))
			}
		}
		q.group += ")"
	}
	direction := "ASC"
	if f.Descending {
		direction = "DESC"
	}
	q.order = fmt.Sprintf("ORDER BY isNull(ranking), ranking %s, %s LIMIT %d", direction, flowNames, f.Limit)
	q.ranking = r.expand(flowOrders[f.Order]) + " AS ranking"
	q.sql = fmt.Sprintf("SELECT toInt64("+hashOf(flowNames)+") AS hash, %s, min(%s) AS first_ns, max(%s) AS last_ns, %s, %s, toInt64(0) AS found %s %s",
		q.named, r.of("begun"), r.of("ended"), q.ranking, r.sums(), q.group, q.order)
	return q
}

func (q *flowsReader) readSums(ctx context.Context) error {
	err := q.a.read(ctx, q.sql, nil, answer.Each(func(r answer.Row) {
		q.hashes = append(q.hashes, r.Int(0))
		q.of.ReadSum(r)
	}))
	q.of.Found = int64(q.of.Read())
	return err
}

// readHistograms reads those of the flows that were found.
func (q *flowsReader) readHistograms(ctx context.Context) error {
	f, places := q.of, q.of.Places()
	if len(places) == 0 {
		return nil
	}
	if f.Found > int64(f.Limit) || f.Question.Search != "" {
		in, chosen := "IN", listOf(places)
		if len(places) > chosenMost {
			in, chosen = "GLOBAL IN", fmt.Sprintf("SELECT %s FROM (SELECT %s, %s %s %s)", flowNames, q.named, q.ranking, q.group, q.order)
		}
		q.source = q.source.and(func(r representation) string {
			return "(" + strings.Join(keysOf(q.keys, r), ", ") + ") " + in + " (" + chosen + ")"
		})
	}
	if byHash := placesOf(q.hashes); len(byHash) == len(q.hashes) {
		return q.byHash(ctx, f.Every(), func(hash int64) *flows.Sum { return found(f, byHash, hash) })
	}
	return q.byKeys(ctx)
}

// readAll reads the sums and histograms of all flows at once.
func (q *flowsReader) readAll(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	summed, unique := make(chan struct{}), false
	var places map[int64]int64
	group.Go(func() error {
		defer close(summed)
		err := q.readSums(ctx)
		places = placesOf(q.hashes)
		unique = len(places) == len(q.hashes)
		return err
	})
	group.Go(func() error {
		return q.byHash(ctx, 1, func(hash int64) *flows.Sum {
			if <-summed; !unique {
				return nil
			}
			return found(q.of, places, hash)
		})
	})
	err := group.Wait()
	if q.of.Every(); err != nil || unique {
		return err
	}
	return q.byKeys(ctx)
}

// byHash reads histograms by the hash of their keys.
func (q *flowsReader) byHash(ctx context.Context, every int64, sum func(hash int64) *flows.Sum) error {
	hash := func(r representation) string { return "toInt64(" + hashOf(strings.Join(keysOf(q.keys, r), ", ")) + ")" }
	return q.a.readHistograms(ctx, q.source, []expression{hash}, every, func(r answer.Row) *flows.Sum { return sum(r.Int(0)) })
}

func (q *flowsReader) byKeys(ctx context.Context) error {
	places := q.of.Places()
	return q.a.readHistograms(ctx, q.source, q.keys, q.of.Every(), func(r answer.Row) *flows.Sum { return found(q.of, places, answer.FlowOf(r, 0)) })
}

// hashOf is the SQL of a number for the keys of a flow, by which histograms are grouped several
// times as fast as by the keys. It is rarely the same for two flows.
func hashOf(keys string) string { return "cityHash64(" + keys + ")" }

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

// listOf flows in SQL, each a tuple of its keys.
func listOf(places map[flows.Flow]int64) string {
	list := make([]string, 0, len(places))
	for f := range places {
		list = append(list, fmt.Sprintf("(%s, %s, %s, %s, %s)", literal(f.Src), literal(f.Dst), literal(f.Proto), integer(int64(f.Sport)), integer(int64(f.Dport))))
	}
	slices.Sort(list)
	return strings.Join(list, ", ")
}
