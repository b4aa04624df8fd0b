package api

//go:generate go build -o ../bin/tools/ google.golang.org/protobuf/cmd/protoc-gen-go connectrpc.com/connect/cmd/protoc-gen-connect-go github.com/grpc-ecosystem/grpc-gateway/v2/protoc-gen-openapiv2
//go:generate protoc -I proto --plugin=../bin/tools/protoc-gen-go --plugin=../bin/tools/protoc-gen-connect-go --go_out=.. --go_opt=module=pillion.dev --connect-go_out=.. --connect-go_opt=module=pillion.dev,simple agent.proto alarm.proto session.proto data.proto flow.proto topology.proto server.proto
//go:generate protoc -I proto --plugin=../bin/tools/protoc-gen-openapiv2 --openapiv2_out=. --openapiv2_opt=generate_unbound_methods=true,allow_merge=true,merge_file_name=openapi,disable_default_errors=true,openapi_naming_strategy=simple,openapi_configuration=proto/openapi.yaml agent.proto alarm.proto session.proto data.proto flow.proto topology.proto server.proto
//go:generate mv openapi.swagger.json openapi.json
