package web

import (
	"context"
	"errors"
	"fmt"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
	"pillion.dev/archive"
)

// SetRetention limits the rows of a stream or of a roll-up.
func (d *data) SetRetention(ctx context.Context, request *pillionv1.SetRetentionRequest) (*pillionv1.SetRetentionResponse, error) {
	age, err := api.DurationOf(request.GetRetention().GetAge())
	if err != nil || age < 0 {
		return nil, invalid("retention.age", "read age %v: use 0 (no limit) or more", request.GetRetention().GetAge().AsDuration())
	}
	retention := archive.Retention{Age: age, Rows: request.GetRetention().GetRows(), Bytes: request.GetRetention().GetBytes()}
	if retention.Rows < 0 || retention.Bytes < 0 {
		return nil, invalid("retention", "read retention: %d rows, %d bytes: use 0 (no limit) or more", retention.Rows, retention.Bytes)
	}
	kept, isRollUp, err := d.kept(ctx, request.GetStream())
	if err != nil {
		return nil, err
	}
	if isRollUp && (retention.Rows > 0 || retention.Bytes > 0) {
		return nil, invalid("retention", "read retention: %s is a roll-up: limit it by age only", request.GetStream())
	}
	d.archive.SetRetention(request.GetStream(), retention)
	kept.Retention = retention
	// Listing streams lets the other servers of a fleet know.
	if _, err := d.archive.Streams(ctx); err != nil {
		return nil, fmt.Errorf("set retention of %s: %w", request.GetStream(), err)
	}
	return &pillionv1.SetRetentionResponse{Stream: streamMessage(kept)}, nil
}

// kept returns a stream or a roll-up by name.
func (d *data) kept(ctx context.Context, name string) (stream archive.Stream, isRollUp bool, err error) {
	stream, err = d.find(ctx, name)
	if !errors.Is(err, archive.ErrUnknown) {
		return stream, false, err
	}
	rollUps, failed := d.archive.rollUps(ctx)
	if failed != nil {
		return stream, false, failed
	}
	for _, rollUp := range rollUps {
		if rollUp.Schema.Name == name {
			return rollUp, true, nil
		}
	}
	return stream, false, err
}
