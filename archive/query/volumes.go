package query

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
)

// Volumes answers archive.Volumes.
func Volumes(ctx context.Context, e Engine, question archive.Volumes) (archive.VolumesAnswer, error) {
	v, err := answer.NewVolumes(question)
	if err != nil {
		return archive.VolumesAnswer{}, err
	}
	plan, err := survey(ctx, e, &v.Survey)
	if err != nil {
		return archive.VolumesAnswer{}, err
	}
	if v.Elect(); v.Rows > 0 {
		if err := readVolumes(ctx, e, v, plan.Source(&v.Survey, 0)); err != nil {
			return archive.VolumesAnswer{}, err
		}
	}
	return v.Answer(), nil
}

func readVolumes(ctx context.Context, e Engine, v *answer.Volumes, source Source) error {
	keys := slices.Concat(flowKeys[v.Question.Granularity], []expression{summed("source"), summed("agent")})
	from, r, of := source.grouped(keys, "packets", "bytes")
	named := make([]string, len(keys))
	for i := range keys {
		if i != 3 && i != 4 { // ports
			of[i] = sql(r.ToText, of[i])
		}
		named[i] = fmt.Sprintf("%s AS k%d", of[i], i)
	}
	names := flowNames + ", k5, k6"
	groups := fmt.Sprintf("SELECT %s, %s AS packets_sum, %s AS bytes_sum %s GROUP BY %s", strings.Join(named, ", "), sql(r.Saturated, r.Of("packets")), sql(r.Saturated, r.Of("bytes")), from, names)
	order := fmt.Sprintf(" ORDER BY packets_sum DESC, %s LIMIT %d", names, v.Question.Limit)
	if err := e.Read(ctx, groups+order, nil, answer.Each(v.ReadVolume)); err != nil || !v.Full() {
		return err
	}
	totals := fmt.Sprintf("SELECT %s, %s, %s FROM (%s)", sql(r.ToInt, "count()"), sql(r.Saturated, "packets_sum"), sql(r.Saturated, "bytes_sum"), groups)
	return e.Read(ctx, totals, nil, answer.Each(v.ReadTotal))
}
