package clickhouse

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"pillion.dev/archive"
	"pillion.dev/archive/answer"
	"pillion.dev/measure"
)

// Volumes implements archive.Archive.
func (a *Archive) Volumes(ctx context.Context, question archive.Volumes) (archive.VolumesAnswer, error) {
	v, err := answer.NewVolumes(question)
	if err != nil {
		return archive.VolumesAnswer{}, err
	}
	if _, err := a.schema(ctx, measure.Flows.Name); errors.Is(err, archive.ErrUnknown) {
		return v.Answer(), nil
	} else if err != nil {
		return archive.VolumesAnswer{}, err
	}
	plan, err := a.survey(ctx, &v.Survey)
	if err != nil {
		return archive.VolumesAnswer{}, err
	}
	if v.Elect(); v.Rows > 0 {
		if err := a.readVolumes(ctx, v, plan.source(&v.Survey, 0)); err != nil {
			return archive.VolumesAnswer{}, err
		}
	}
	return v.Answer(), nil
}

func (a *Archive) readVolumes(ctx context.Context, v *answer.Volumes, source source) error {
	keys := slices.Concat(flowKeys[v.Question.Granularity], []expression{summed("source"), summed("agent")})
	from, r, of := source.grouped(keys, "packets", "bytes")
	named := make([]string, len(keys))
	for i := range keys {
		named[i] = fmt.Sprintf("%s AS k%d", of[i], i)
	}
	for _, i := range []int{0, 1, 2, 5, 6} {
		named[i] = fmt.Sprintf("toString(%s) AS k%d", of[i], i)
	}
	names := flowNames + ", k5, k6"
	groups := fmt.Sprintf("SELECT %s, %s AS packets_sum, %s AS bytes_sum %s GROUP BY %s", strings.Join(named, ", "), saturated(r.of("packets")), saturated(r.of("bytes")), from, names)
	order := fmt.Sprintf(" ORDER BY packets_sum DESC, %s LIMIT %d", names, v.Question.Limit)
	if err := a.read(ctx, groups+order, nil, answer.Each(v.ReadVolume)); err != nil || !v.Full() {
		return err
	}
	totals := fmt.Sprintf("SELECT toInt64(count()), %s, %s FROM (%s)", saturated("packets_sum"), saturated("bytes_sum"), groups)
	return a.read(ctx, totals, nil, answer.Each(v.ReadTotal))
}
