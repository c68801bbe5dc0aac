// Generated from the OpenAPI document by `go test ./test/sdk -run JavaScriptTypes -update`.
export {};
