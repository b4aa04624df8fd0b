package server_test

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/dynamicpb"
)

// procedures returns all procedures of the API, by the descriptors.
func procedures(t *testing.T) map[string]protoreflect.MethodDescriptor {
	t.Helper()
	all := map[string]protoreflect.MethodDescriptor{}
	protoregistry.GlobalFiles.RangeFilesByPackage("pillion.v1", func(file protoreflect.FileDescriptor) bool {
		for i := range file.Services().Len() {
			service := file.Services().Get(i)
			for j := range service.Methods().Len() {
				method := service.Methods().Get(j)
				all[fmt.Sprintf("/%s/%s", service.FullName(), method.Name())] = method
			}
		}
		return true
	})
	if len(all) < 30 {
		t.Fatalf("%d procedures", len(all))
	}
	return all
}

var oddTexts = []string{
	"", "a", "*", "flows", "numbers", "../../etc/passwd", "/etc/passwd", "CON", "a\x00b", `"; DROP TABLE x; --`, "ü\u202e🐎",
	strings.Repeat("x", 5000), "-1", "NaN", "viewer", "a=b", "SELECT 1", "time", "n", "arrow", "avg",
}

// invent fills a message with odd values.
func invent(r *rand.Rand, m protoreflect.Message, depth int) {
	for i := range m.Descriptor().Fields().Len() {
		field := m.Descriptor().Fields().Get(i)
		switch {
		case r.IntN(3) == 0 || depth > 4:
		case field.IsMap():
			entries := m.Mutable(field).Map()
			for range r.IntN(3) {
				if field.MapValue().Kind() == protoreflect.StringKind {
					entries.Set(protoreflect.ValueOfString(oddText(r)).MapKey(), protoreflect.ValueOfString(oddText(r)))
				}
			}
		case field.IsList():
			list := m.Mutable(field).List()
			for range r.IntN(4) {
				if field.Kind() == protoreflect.MessageKind {
					invent(r, list.AppendMutable().Message(), depth+1)
				} else {
					list.Append(oddValue(r, field))
				}
			}
		case field.Kind() == protoreflect.MessageKind:
			invent(r, m.Mutable(field).Message(), depth+1)
		default:
			m.Set(field, oddValue(r, field))
		}
	}
}

func oddText(r *rand.Rand) string { return oddTexts[r.IntN(len(oddTexts))] }

func oddValue(r *rand.Rand, field protoreflect.FieldDescriptor) protoreflect.Value {
	odd := []int64{0, 1, -1, 300, 1 << 31, 1<<63 - 1, -1 << 63, r.Int64()}[r.IntN(8)]
	switch field.Kind() {
	case protoreflect.StringKind:
		return protoreflect.ValueOfString(oddText(r))
	case protoreflect.BytesKind:
		return protoreflect.ValueOfBytes([]byte(oddText(r)))
	case protoreflect.BoolKind:
		return protoreflect.ValueOfBool(odd&1 == 1)
	case protoreflect.DoubleKind:
		return protoreflect.ValueOfFloat64(float64(odd))
	case protoreflect.EnumKind:
		return protoreflect.ValueOfEnum(protoreflect.EnumNumber(int32(odd)))
	case protoreflect.Int32Kind, protoreflect.Sint32Kind, protoreflect.Sfixed32Kind:
		return protoreflect.ValueOfInt32(int32(odd))
	case protoreflect.Uint32Kind, protoreflect.Fixed32Kind:
		return protoreflect.ValueOfUint32(uint32(odd))
	case protoreflect.Uint64Kind, protoreflect.Fixed64Kind:
		return protoreflect.ValueOfUint64(uint64(odd))
	}
	return protoreflect.ValueOfInt64(odd)
}

// damage changes some bytes, or cuts or doubles some.
func damage(r *rand.Rand, text []byte) []byte {
	text = slices.Clone(text)
	for range r.IntN(4) {
		if len(text) == 0 {
			return []byte{byte(r.Uint32())}
		}
		at := r.IntN(len(text))
		switch r.IntN(4) {
		case 0:
			text[at] ^= 1 << r.IntN(8)
		case 1:
			text = text[:at]
		case 2:
			text = slices.Insert(text, at, text[at:min(at+8, len(text))]...)
		default:
			text[at] = byte(r.Uint32())
		}
	}
	return text
}

// attempt is one request of the seeded series.
func attempt(r *rand.Rand, url, procedure string, method protoreflect.MethodDescriptor, tokens []string) *http.Request {
	message := dynamicpb.NewMessage(method.Input())
	invent(r, message, 0)
	kind := []string{"proto", "json"}[r.IntN(2)]
	body, _ := proto.Marshal(message)
	if kind == "json" {
		body, _ = protojson.Marshal(message)
	}
	content := "application/" + kind
	frame := []string{"", "connect+", "grpc+", "grpc-web+"}[r.IntN(4)]
	if frame == "" && method.IsStreamingServer() {
		frame = "connect+"
	}
	if frame != "" {
		content = "application/" + frame + kind
		length := uint32(len(body))
		if r.IntN(8) == 0 {
			length = r.Uint32()
		}
		body = append(binary.BigEndian.AppendUint32([]byte{byte(r.IntN(8) / 6)}, length), body...)
	}
	if r.IntN(2) == 0 {
		body = damage(r, body)
	}
	request, _ := http.NewRequest("POST", url+procedure, bytes.NewReader(body))
	request.Header.Set("Content-Type", content)
	request.Header.Set("Connect-Timeout-Ms", "30") // tails end
	request.Header.Set("Grpc-Timeout", "30m")
	if r.IntN(10) == 0 {
		request.Header.Set("Content-Encoding", "gzip")
		request.Header.Set("Grpc-Encoding", "gzip")
	}
	if token := tokens[r.IntN(len(tokens))]; token != "" {
		request.Header.Set("Authorization", "Bearer "+token)
	}
	return request
}

// TestMalformedRequests: odd and damaged messages for every procedure, in every
// protocol, have no effect except errors.
func TestMalformedRequests(t *testing.T) { malformedRequests(t, 4_000) }

func malformedRequests(t *testing.T, attempts int) {
	s := start(t, t.TempDir()+"/data")
	honest := s.agent(t, "honest")
	feed(t, honest, 0, 5)
	tokens := []string{s.operator, s.operator, s.token(t, "fuzz-viewer", "viewer"), "wrong", ""}
	all := procedures(t)
	var names []string
	for name := range all {
		names = append(names, name)
	}
	slices.Sort(names)
	before := used(t)
	one, two := new(http.Protocols), new(http.Protocols)
	one.SetHTTP1(true)
	two.SetUnencryptedHTTP2(true)
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Go(func() {
			transport := &http.Transport{Protocols: []*http.Protocols{one, two}[worker%2], MaxIdleConnsPerHost: 8}
			defer transport.CloseIdleConnections()
			client := &http.Client{Transport: transport, Timeout: patience}
			r := rand.New(rand.NewPCG(1, uint64(worker)))
			for i := range attempts / 8 {
				name := names[(i+worker)%len(names)]
				request := attempt(r, "http://"+s.welcome.HTTP, name, all[name], tokens)
				response, err := client.Do(request)
				if err != nil {
					t.Errorf("%s (%s): %v", name, request.Header.Get("Content-Type"), err)
					return
				}
				io.Copy(io.Discard, response.Body)
				response.Body.Close()
			}
		})
	}
	workers.Wait()
	feed(t, honest, 5, 10)
	if n := number(t, s.client(t, s.operator), "SELECT count(*) FROM numbers"); n != 100 {
		t.Errorf("%d rows of 100", n)
	}
	settled(t, before)
}

// openers are the first bytes of connections; %s stands for random bytes.
var openers = []string{
	"%s", "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03%s", "\x16\x03\x01\xff\xff%s", "GET / HTTP/1.1\r\n%s", "GET /%s HTTP/1.1\r\nHost: x\r\n\r\n",
	"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n%s", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00%s",
	"POST /pillion.v1.ServerService/Health HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n%s",
	"POST /pillion.v1.ServerService/Health HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\nfffffffff\r\n%s",
	"GET / HTTP/1.1\r\nHost: x\r\nX: " + strings.Repeat("y", 80<<10) + "%s",
	"CONNECT {\"tls_required\":true}\r\n%s", "PUB pillion.state.honest 5\r\nhello\r\n%s", "SUB > 1\r\nPING\r\n%s", "INFO {}\r\n%s",
	"protocol: 4\ndomain: ../x'\"; --\nstart-time: 1\nsender-id: '\nschema: 1 a_t n:int32\ncontent: binary\n\n\xaa\xaa\x01\xff%s",
	"protocol: 4\ndomain: d\nschema: 1 select from:int32 drop:[double]\n\n0\t1\t1\t5\t1 nan\n%s\n",
	"protocol: 5\npillion-session: ffffffffffffffff\nschema: 1 a_u n:string\n\n0\t1\t1\t%s\n",
}

// TestGarbageOnEveryPort: garbage and silent connections on every port, plain and
// inside TLS.
func TestGarbageOnEveryPort(t *testing.T) {
	s := start(t, t.TempDir()+"/data")
	honest := s.agent(t, "honest")
	certificate := s.enrol(t, "hostile")
	feed(t, honest, 0, 5)
	before := used(t)
	var silent []net.Conn
	for range 200 {
		for _, port := range []string{s.welcome.HTTP, s.welcome.Bus, s.welcome.OML[0]} {
			conn, err := net.Dial("tcp", port)
			if err != nil {
				t.Fatal(err)
			}
			silent = append(silent, conn)
		}
	}
	var workers sync.WaitGroup
	for worker := range 8 {
		workers.Go(func() {
			r := rand.New(rand.NewPCG(2, uint64(worker)))
			for i := range 300 {
				noise := make([]byte, r.IntN(300))
				for k := range noise {
					noise[k] = byte(r.Uint32())
				}
				text := fmt.Sprintf(openers[i%len(openers)], noise)
				if i%2 == 0 {
					knock(t, s.welcome.HTTP, text, nil, false)
				} else {
					knock(t, s.welcome.Bus, text, nil, true)
				}
				switch i % 10 {
				case 3, 7:
					knock(t, s.welcome.OML[0], text, nil, false)
				case 0:
					knock(t, s.welcome.HTTP, text, &tls.Config{RootCAs: s.roots, ServerName: "localhost", NextProtos: []string{"h2"}}, false)
				case 5:
					knock(t, s.welcome.Bus, text, certificate, true)
				}
			}
		})
	}
	workers.Wait()
	feed(t, honest, 5, 10)
	if n := number(t, s.client(t, s.operator), "SELECT count(*) FROM numbers"); n != 100 {
		t.Errorf("%d rows of 100", n)
	}
	for _, conn := range silent {
		conn.Close()
	}
	settled(t, before)
}

// knock opens a connection, sends the text and closes. NATS greets before TLS.
func knock(t *testing.T, address, text string, config *tls.Config, greeted bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", address)
	if err != nil {
		t.Errorf("knock at %s: %v", address, err)
		return
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(patience))
	answer := make([]byte, 4096)
	if greeted && config != nil {
		conn.Read(answer)
	}
	if config != nil {
		config = config.Clone()
		config.ServerName = "localhost"
		shaken := tls.Client(conn, config)
		if err := shaken.HandshakeContext(ctx); err != nil {
			return
		}
		defer shaken.Close()
		shaken.Write([]byte(text))
		return
	}
	conn.Write([]byte(text))
	conn.(*net.TCPConn).CloseWrite()
}
