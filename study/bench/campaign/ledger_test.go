package main

import (
	"bufio"
	"io"
	"net"
	"strings"
	"testing"
)

func TestBalance(t *testing.T) {
	for _, row := range []struct {
		name             string
		a                account
		found            archived
		duplicates, lost int64
	}{
		{"all acknowledged are there", account{sent: 12, stored: 10}, archived{Rows: 10, Rows1: 10, Last: 10}, 0, 0},
		{"more are there than acknowledged", account{sent: 12, stored: 10}, archived{Rows: 11, Rows1: 11, Last: 11}, 0, 0},
		{"one is missing at the end", account{sent: 12, stored: 10}, archived{Rows: 9, Rows1: 9, Last: 9}, 0, 1},
		{"one is missing between others", account{sent: 12, stored: 10}, archived{Rows: 9, Rows1: 9, Last: 10}, 0, 1},
		{"one that was not acknowledged is missing between others", account{sent: 12, stored: 8}, archived{Rows: 9, Rows1: 9, Last: 10}, 0, 1},
		{"one is there twice", account{sent: 12, stored: 10}, archived{Rows: 11, Rows1: 10, Last: 10}, 1, 0},
		{"one is there twice, another not", account{sent: 12, stored: 10}, archived{Rows: 10, Rows1: 9, Last: 10}, 1, 1},
		{"nothing arrived", account{sent: 12, stored: 10}, archived{}, 0, 10},
		{"ended, and all are there", account{12, 12, true}, archived{Rows: 12, Rows1: 12, Last: 12}, 0, 0},
		{"ended, and one that was sent is missing", account{12, 11, true}, archived{Rows: 11, Rows1: 11, Last: 11}, 0, 1},
	} {
		t.Run(row.name, func(t *testing.T) {
			b := balanceOf(map[string]account{"a-1": row.a}, map[string]archived{"a-1": row.found})
			if b.Duplicates != row.duplicates || b.Lost != row.lost || (len(b.faults) > 0) != (row.duplicates+row.lost > 0) {
				t.Errorf("got %+v", b)
			}
		})
	}
	if b := balanceOf(map[string]account{"a-1": {5, 5, true}}, map[string]archived{"a-1": {Rows: 6, Rows1: 6, Last: 6}}); len(b.faults) != 1 {
		t.Errorf("a row that was never sent: %+v", b)
	}
	found, err := parseArchived([]byte(`{"sender":"a-1","rows":3,"rows1":2,"last":2}` + "\n" + `{"sender":"b-1","rows":1,"rows1":1,"last":1}` + "\n"))
	if err != nil || len(found) != 2 || found["a-1"].Rows != 3 || found["a-1"].Rows1 != 2 {
		t.Errorf("got %v, %v", found, err)
	}
}

// TestRequestIsRecognised: the second TLS record with content, whatever is before it.
func TestRequestIsRecognised(t *testing.T) {
	agent, proxy := net.Pipe()
	asked := make(chan struct{})
	var passed strings.Builder
	ended := make(chan error, 1)
	go func() { ended <- countRecords(&passed, bufio.NewReader(proxy), asked) }()
	records := []string{"\x16\x03\x01\x00\x02hi", "\x14\x03\x03\x00\x01x", "\x17\x03\x03\x00\x03fin", "\x17\x03\x03\x00\x03ask"}
	for i, r := range records {
		select {
		case <-asked:
			t.Errorf("asked before record %d", i)
		default:
		}
		if _, err := io.WriteString(agent, r); err != nil {
			t.Fatal(err)
		}
	}
	agent.Close()
	<-ended
	select {
	case <-asked:
	default:
		t.Error("not asked")
	}
	if passed.String() != strings.Join(records, "") {
		t.Errorf("passed on %q", passed.String())
	}
}
