// Package deps holds dependencies while rooms are built; removed afterwards.
package deps

import (
	_ "connectrpc.com/connect"
	_ "github.com/DataDog/sketches-go/ddsketch"
	_ "github.com/apache/arrow-go/v18/arrow/compute"
	_ "github.com/apache/arrow-go/v18/parquet/pqarrow"
	_ "github.com/duckdb/duckdb-go/v2"
	_ "github.com/nats-io/nats-server/v2/server"
	_ "github.com/nats-io/nats.go"
	_ "github.com/prometheus/client_golang/prometheus/promhttp"
	_ "github.com/robfig/cron/v3"
	_ "github.com/shirou/gopsutil/v4/cpu"
	_ "github.com/shirou/gopsutil/v4/mem"
	_ "github.com/shirou/gopsutil/v4/net"
	_ "golang.org/x/net/http2"
	_ "golang.org/x/net/icmp"
	_ "golang.org/x/term"
	_ "google.golang.org/protobuf/proto"
)
