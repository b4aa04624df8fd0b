package fleet

import (
	"context"
	"fmt"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

// Client returns a client with the role operator. The caller closes it.
func (s *Server) Client() (*api.Client, error) {
	token, err := s.Secret("admin.token")
	if err != nil {
		return nil, err
	}
	return api.NewClient(api.ClientOptions{Server: "http://" + s.Address, Token: token})
}

// Number returns the single figure of an answer.
func Number(ctx context.Context, client *api.Client, sql string) (int64, error) {
	answer, err := client.Data.Query(ctx, &pillionv1.QueryRequest{Sql: sql})
	if err != nil {
		return 0, err
	}
	defer answer.Close()
	found, n := false, int64(0)
	for answer.Receive() {
		for _, row := range answer.Msg().GetRows() {
			value := row.GetValues()[0] // ClickHouse counts without a sign
			found, n = true, value.GetInt()+int64(value.GetUint())
		}
	}
	if answer.Err() != nil || !found {
		return 0, fmt.Errorf("ask %q: no figure: %w", sql, answer.Err())
	}
	return n, nil
}
