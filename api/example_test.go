package api_test

import (
	"bytes"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"log"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/durationpb"

	"pillion.dev/api"
	"pillion.dev/api/pillionv1"
)

// A client needs an address and a token, and the certificate or the fingerprint of the server's
// authority unless the system trusts it. It connects with the first call.
func ExampleNewClient() {
	server := startServer()
	defer server.stop()

	client, err := api.NewClient(api.ClientOptions{
		Server:    server.address,   // such as noc.example:8470
		Authority: server.authority, // the content of ca.crt in the server's data directory
		Token:     "plt_example",
		Timeout:   10 * time.Second, // of calls that are no streams
	})
	if err != nil {
		log.Fatal(err)
	}
	defer client.Close()

	answer, err := client.Agents.ListAgents(context.Background(), &pillionv1.ListAgentsRequest{})
	if err != nil {
		log.Fatal(err)
	}
	for _, agent := range answer.Agents {
		fmt.Println(agent.Name, "is", agent.State)
	}
	// Output:
	// north1 is connected
}

// Lists come in pages; Pages reads all.
func ExamplePages() {
	server := startServer()
	defer server.stop()
	client := connected(server)
	defer client.Close()

	agents, err := api.Pages(func(token string) ([]*pillionv1.Agent, string, error) {
		page, err := client.Agents.ListAgents(context.Background(), &pillionv1.ListAgentsRequest{PageSize: api.PageSize, PageToken: token})
		return page.GetAgents(), page.GetNextPageToken(), err
	})
	if err != nil {
		log.Fatal(err)
	}
	for _, agent := range agents {
		fmt.Println(agent.Name, "is", agent.State)
	}
	// Output:
	// north1 is connected
	// south1 is away
}

// An invalid specification is rejected with all of its problems.
func ExampleClient_createSession() {
	server := startServer()
	defer server.stop()
	client := connected(server)
	defer client.Close()

	spec := &pillionv1.SessionSpec{Name: "web-delay", Sources: []string{"north1"}, Filters: []string{"proto=tcp dport=443"}, Interval: durationpb.New(time.Second)}
	_, err := client.Sessions.CreateSession(context.Background(), &pillionv1.CreateSessionRequest{Spec: spec})
	if refusal := (*connect.Error)(nil); errors.As(err, &refusal) {
		fmt.Println(refusal.Code())
		for _, detail := range refusal.Details() {
			if value, err := detail.Value(); err == nil {
				problem := value.(*pillionv1.Problem)
				fmt.Printf("%s: %s\n", problem.Field, problem.Message)
			}
		}
	}

	spec.Destinations = []string{"south1"}
	answer, err := client.Sessions.CreateSession(context.Background(), &pillionv1.CreateSessionRequest{Spec: spec})
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(answer.Session.Spec.Name, "is", answer.Session.State)
	// Output:
	// invalid_argument
	// destinations: none given
	// web-delay is starting
}

// WatchPairs sends the figures of all pairs each second. Agents are named once; pairs refer to
// them by index. A program that runs for long calls again when the stream ends.
func ExampleClient_watchPairs() {
	server := startServer()
	defer server.stop()
	client := connected(server)
	defer client.Close()

	stream, err := client.Flows.WatchPairs(context.Background(), &pillionv1.WatchPairsRequest{History: 10})
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	var names []string
	for stream.Receive() {
		second := stream.Msg()
		names = append(names, second.Agents...)
		for i := range second.Sources {
			fmt.Printf("%s > %s: %d of %d packets lost, median delay %v\n", names[second.Sources[i]], names[second.Destinations[i]],
				second.Lost[i], second.Expected[i], time.Duration(second.P50Ns[i]))
		}
	}
	if err := stream.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// north1 > south1: 0 of 1000 packets lost, median delay 5.1ms
	// north1 > south1: 3 of 1000 packets lost, median delay 5.1ms
}

// The archive is queried in SQL. The first message has the columns.
func ExampleClient_query() {
	server := startServer()
	defer server.stop()
	client := connected(server)
	defer client.Close()

	stream, err := client.Data.Query(context.Background(), &pillionv1.QueryRequest{Sql: "SELECT agent, sum(packets) AS packets FROM flows GROUP BY agent", Limit: 100})
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	for stream.Receive() {
		for _, row := range stream.Msg().Rows {
			fmt.Println(row.Values[0].GetText(), row.Values[1].GetInt())
		}
	}
	if err := stream.Err(); err != nil {
		log.Fatal(err)
	}
	// Output:
	// north1 120
	// south1 80
}

// Rows are exported as CSV, Parquet or an Arrow stream, in pieces of a file.
func ExampleClient_export() {
	server := startServer()
	defer server.stop()
	client := connected(server)
	defer client.Close()

	stream, err := client.Data.Export(context.Background(), &pillionv1.ExportRequest{Stream: "flows", Columns: []string{"time", "agent", "lost"}, Format: "csv"})
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	var file bytes.Buffer
	for stream.Receive() {
		file.Write(stream.Msg().Data)
	}
	if err := stream.Err(); err != nil {
		log.Fatal(err)
	}
	records, err := csv.NewReader(&file).ReadAll()
	if err != nil {
		log.Fatal(err)
	}
	for _, record := range records {
		fmt.Println(record)
	}
	// Output:
	// [time agent lost]
	// [1970-01-01T00:00:00Z south1 3]
}

// connected is the client of ExampleNewClient.
func connected(server *exampleServer) *api.Client {
	client, err := api.NewClient(api.ClientOptions{Server: server.address, Authority: server.authority, Token: exampleToken})
	if err != nil {
		log.Fatal(err)
	}
	return client
}
