package duckdb

import (
	"context"
	"errors"
	"fmt"

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
	if _, err := a.known(measure.Flows.Name); errors.Is(err, archive.ErrUnknown) {
		return v.Answer(), nil
	}
	err = a.reader(ctx, 0, func(ctx context.Context, c *connection) error {
		if err := c.look(ctx, &v.Survey); err != nil {
			return err
		}
		if v.Elect(); v.Rows == 0 {
			return nil
		}
		return c.askVolumes(ctx, v)
	})
	if err != nil {
		return archive.VolumesAnswer{}, err
	}
	return v.Answer(), nil
}

func (c *connection) askVolumes(ctx context.Context, v *answer.Volumes) error {
	where, arguments := where(&v.Survey)
	sum := func(column, name string) string {
		return fmt.Sprintf("least(coalesce(sum(%[1]s), 0), 18446744073709551615)::UBIGINT AS %[2]s", column, name)
	}
	groups := fmt.Sprintf(`SELECT %s, coalesce(source, '') AS source_agent, agent AS destination_agent, %s, %s FROM %s WHERE %s GROUP BY ALL`,
		flowKeys[v.Question.Granularity], sum("packets", "packets_sum"), sum("bytes", "bytes_sum"), tableOf(measure.Flows.Name), where)
	order := fmt.Sprintf(" ORDER BY packets_sum DESC, k0, k1, k2, k3, k4, source_agent, destination_agent LIMIT %d", v.Question.Limit)
	if err := c.query(ctx, groups+order, arguments, answer.Each(v.ReadVolume)); err != nil || !v.Full() {
		return err
	}
	totals := fmt.Sprintf("SELECT count(*)::BIGINT, %s, %s FROM (%s)", sum("packets_sum", "packets"), sum("bytes_sum", "bytes"), groups)
	return c.query(ctx, totals, arguments, answer.Each(v.ReadTotal))
}
