// Command clickhouse is the workload of the experiments on ClickHouse as an archive (study/bench/clickhouse-*.yaml). Each of its
// subcommands starts a server with its files in a folder, and stops it at the end:
//
//	fill    stores a day of flows of a full mesh of hosts, as a pillion-server does, with roll-ups
//	ask     asks what the page asks, and prints how long the answers took
//	insert  stores rows by the archive, or by blocks of the driver alone
//
// Each prints one JSON object. What they do not prove: there is one server without replicas, on this machine, and nothing
// else is stored or asked meanwhile.
package main

import "pillion.dev/study/bench/result"

var commands = map[string]result.Command{"fill": fillCommand, "ask": askCommand, "insert": insertCommand}

func main() { result.Main("clickhouse", commands) }
