// Package clickhouse writes the configuration of ClickHouse servers and of their coordination
// service, ZooKeeper, for labs and tests: a cluster of shards and replicas with all files of a
// process in one folder. It starts nothing.
//
// The programs come from Debian's packages. The servers have no password: they listen on
// addresses of a lab or on loopback only.
package clickhouse

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// ClusterName is the name of the cluster in the servers' configuration.
const ClusterName = "fleet"

// Node is a ClickHouse server.
type Node struct {
	// Address of the native protocol.
	Address netip.AddrPort
	// HTTP and Interserver are ports of the same address: for the HTTP interface, and for
	// replicas that fetch parts.
	HTTP, Interserver uint16
}

// Cluster is what every server knows.
type Cluster struct {
	// Shards are the replicas of each shard.
	Shards [][]Node
	// Coordination is the address of ZooKeeper; the zero value: a single server, which needs none.
	Coordination netip.AddrPort
}

// WriteNode writes the configuration of a replica of a shard, both from 0, into a folder, and
// returns the command that starts it.
func (c *Cluster) WriteNode(folder string, shard, replica int) ([]string, error) {
	node := c.Shards[shard][replica]
	settings := ""
	if c.Coordination.IsValid() {
		settings = c.coordination() + c.topology() +
			fmt.Sprintf("<macros><shard>%d</shard><replica>r%d</replica></macros>", shard+1, replica+1)
	}
	path := filepath.Join(folder, "config.xml")
	err := write(path, fmt.Sprintf(serverText, escape(folder), node.Address.Addr(), node.Address.Port(), node.HTTP, node.Interserver, settings))
	if err == nil {
		err = write(filepath.Join(folder, "users.xml"), usersText)
	}
	if err != nil {
		return nil, fmt.Errorf("configure ClickHouse: %w", err)
	}
	return []string{"clickhouse-server", "--config-file=" + path}, nil
}

// serverText takes the folder, address, ports of the native, HTTP and interserver protocols, and more settings.
const serverText = `<yandex>
	<logger><level>warning</level><errorlog>%[1]s/errors.log</errorlog><log>%[1]s/log</log></logger>
	<listen_host>%[2]s</listen_host><tcp_port>%[3]d</tcp_port><http_port>%[4]d</http_port>
	<interserver_http_host>%[2]s</interserver_http_host><interserver_http_port>%[5]d</interserver_http_port>
	<path>%[1]s/data/</path><tmp_path>%[1]s/tmp/</tmp_path><user_files_path>%[1]s/files/</user_files_path>
	<users_config>%[1]s/users.xml</users_config><default_profile>default</default_profile><default_database>default</default_database>
	<timezone>UTC</timezone><max_concurrent_queries>200</max_concurrent_queries>
	<mark_cache_size>134217728</mark_cache_size><uncompressed_cache_size>0</uncompressed_cache_size>
	%[6]s
</yandex>
`

// usersText enables LowCardinality, which servers before 19.11 call experimental.
const usersText = `<yandex>
	<profiles><default><allow_experimental_low_cardinality_type>1</allow_experimental_low_cardinality_type><max_threads>2</max_threads></default></profiles>
	<quotas><default></default></quotas>
	<users><default><password></password><networks><ip>::/0</ip></networks><profile>default</profile><quota>default</quota></default></users>
</yandex>
`

func (c *Cluster) coordination() string {
	return fmt.Sprintf("<zookeeper><node><host>%s</host><port>%d</port></node><session_timeout_ms>4000</session_timeout_ms></zookeeper>",
		c.Coordination.Addr(), c.Coordination.Port())
}

func (c *Cluster) topology() string {
	var b strings.Builder
	b.WriteString("<remote_servers><" + ClusterName + ">")
	for _, replicas := range c.Shards {
		b.WriteString("<shard><internal_replication>true</internal_replication>")
		for _, node := range replicas {
			fmt.Fprintf(&b, "<replica><host>%s</host><port>%d</port></replica>", node.Address.Addr(), node.Address.Port())
		}
		b.WriteString("</shard>")
	}
	b.WriteString("</" + ClusterName + "></remote_servers>")
	return b.String()
}

// URL of the archive in a database, for pillion-server.
func (c *Cluster) URL(database string) string {
	var hosts []string
	for _, replicas := range c.Shards {
		for _, node := range replicas {
			hosts = append(hosts, node.Address.String())
		}
	}
	url := fmt.Sprintf("clickhouse://default@%s/%s", strings.Join(hosts, ","), database)
	if c.Coordination.IsValid() {
		url += "?cluster=" + ClusterName
	}
	return url
}

// WriteCoordination writes the configuration of ZooKeeper into a folder, and returns the command
// that starts it. Transactions are not flushed to the disk, so that no session expires while
// a busy disk writes them: they outlive the process, not the host.
func (c *Cluster) WriteCoordination(folder string) ([]string, error) {
	path := filepath.Join(folder, "zoo.cfg")
	err := errors.Join(
		write(path, fmt.Sprintf("tickTime=500\ndataDir=%s\nclientPort=%d\nclientPortAddress=%s\nadmin.enableServer=false\n",
			folder, c.Coordination.Port(), c.Coordination.Addr())),
		write(filepath.Join(folder, "log4j.properties"),
			"log4j.rootLogger=WARN, A\nlog4j.appender.A=org.apache.log4j.ConsoleAppender\nlog4j.appender.A.layout=org.apache.log4j.SimpleLayout\n"))
	if err != nil {
		return nil, fmt.Errorf("configure ZooKeeper: %w", err)
	}
	return []string{
		"java", "-Dzookeeper.forceSync=no", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", folder + ":/usr/share/java/zookeeper.jar",
		"org.apache.zookeeper.server.quorum.QuorumPeerMain", path,
	}, nil
}

// Coordinates asks ZooKeeper whether it serves requests, by its command srvr: it accepts
// connections before, and closes them. The connection is used up.
func Coordinates(connection net.Conn) error {
	if err := connection.SetDeadline(time.Now().Add(time.Second)); err != nil {
		return err
	}
	if _, err := io.WriteString(connection, "srvr"); err != nil {
		return err
	}
	answer, err := io.ReadAll(connection)
	if err == nil && !bytes.Contains(answer, []byte("Mode:")) {
		err = fmt.Errorf("ZooKeeper does not serve yet: %q", answer)
	}
	return err
}

func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // a strings.Builder does not fail
	return b.String()
}

func write(path, text string) error {
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	return os.WriteFile(path, []byte(text), 0o600)
}
