package api

//go:generate go build -o ../bin/tools/ google.golang.org/protobuf/cmd/protoc-gen-go connectrpc.com/connect/cmd/protoc-gen-connect-go
//go:generate protoc -I proto --plugin=../bin/tools/protoc-gen-go --plugin=../bin/tools/protoc-gen-connect-go --go_out=.. --go_opt=module=pillion.dev --connect-go_out=.. --connect-go_opt=module=pillion.dev,simple agent.proto session.proto data.proto topology.proto server.proto
