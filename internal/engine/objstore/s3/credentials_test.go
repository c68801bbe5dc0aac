package s3_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/config"

	"github.com/sebbroker/seb/internal/engine/objstore"
	"github.com/sebbroker/seb/internal/engine/objstore/s3"
	"github.com/sebbroker/seb/test/check"
	"github.com/sebbroker/seb/test/must"
)

// awsServer is the places that give credentials (STS, the metadata service of a machine, that of a
// container) and a bucket, which records the key and the region of each request's signature.
type awsServer struct {
	*httptest.Server
	used, regions []string
}

var credential = regexp.MustCompile(`Credential=([^/]+)/[^/]+/([^/]+)/`)

func newAWSServer(t *testing.T) *awsServer {
	s := &awsServer{}
	s.Server = httptest.NewServer(s)
	t.Cleanup(s.Close)
	return s
}

func (s *awsServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	const keys = `{"Code": "Success", "AccessKeyId": %q, "SecretAccessKey": "s", "Token": "t", "Expiration": "2099-01-01T00:00:00Z"}`
	signer, region := "nothing", ""
	if m := credential.FindStringSubmatch(r.Header.Get("Authorization")); m != nil {
		signer, region = m[1], m[2]
	}
	switch path := r.URL.Path; {
	case r.Method == http.MethodPost:
		body, _ := io.ReadAll(r.Body)
		form := strings.ReplaceAll(string(body), "&", " ")
		action, role := field(form, "Action"), field(form, "RoleArn")
		proof := field(form, "WebIdentityToken") + field(form, "ExternalId")
		fmt.Fprintf(w, `<%[1]sResponse><%[1]sResult><Credentials><AccessKeyId>%[2]s by %[3]s with %[4]q</AccessKeyId><SecretAccessKey>s</SecretAccessKey>`+
			`<SessionToken>t</SessionToken><Expiration>2099-01-01T00:00:00Z</Expiration></Credentials></%[1]sResult></%[1]sResponse>`, action, role, signer, proof)
	case path == "/latest/api/token":
		w.Header().Set("X-Aws-Ec2-Metadata-Token-Ttl-Seconds", "600")
		fmt.Fprint(w, "token")
	case strings.HasSuffix(path, "/security-credentials/"):
		fmt.Fprint(w, "machine-role")
	case strings.HasSuffix(path, "/machine-role"):
		fmt.Fprintf(w, keys, "machine")
	case path == "/container":
		fmt.Fprintf(w, keys, "container "+r.Header.Get("Authorization"))
	default:
		s.used, s.regions = append(s.used, signer), append(s.regions, region)
		w.WriteHeader(http.StatusNotFound)
	}
}

// field returns a field of a form whose fields are separated by spaces.
func field(form, name string) string {
	for part := range strings.FieldsSeq(form) {
		if value, ok := strings.CutPrefix(part, name+"="); ok {
			return value
		}
	}
	return ""
}

var credentialCases = []struct {
	name        string
	environment string // NAME=value, separated by spaces; $ is the server, @ a file with "web"
	profiles    string
	want        string
}{
	{name: "environment", environment: "AWS_ACCESS_KEY_ID=env AWS_SECRET_ACCESS_KEY=s AWS_PROFILE=keys", profiles: "[profile keys]\naws_access_key_id=file\naws_secret_access_key=s\n", want: "env"},
	{name: "default profile", profiles: "[default]\naws_access_key_id=file\naws_secret_access_key=s\n", want: "file"},
	{name: "named profile", environment: "AWS_PROFILE=keys", profiles: "[default]\naws_access_key_id=other\naws_secret_access_key=s\n[profile keys]\naws_access_key_id=file\naws_secret_access_key=s\n", want: "file"},
	{name: "role of another profile", environment: "AWS_PROFILE=role", profiles: "[profile keys]\naws_access_key_id=file\naws_secret_access_key=s\n[profile role]\nrole_arn=writer\nsource_profile=keys\nexternal_id=seb\n", want: `writer by file with "seb"`},
	{name: "role of environment", environment: "AWS_PROFILE=role", profiles: "[profile role]\nrole_arn=writer\ncredential_source=Ec2InstanceMetadata\n", want: `writer by machine with ""`},
	{name: "role of container", environment: "AWS_PROFILE=role AWS_CONTAINER_CREDENTIALS_FULL_URI=$/container", profiles: "[profile role]\nrole_arn=writer\ncredential_source=EcsContainer\n", want: `writer by container  with ""`},
	{name: "process", profiles: "[default]\ncredential_process=echo '{\"Version\": 1, \"AccessKeyId\": \"process\", \"SecretAccessKey\": \"s\"}'\n", want: "process"},
	{name: "web identity of the environment", environment: "AWS_ROLE_ARN=pod AWS_WEB_IDENTITY_TOKEN_FILE=@", profiles: "[default]\naws_access_key_id=file\naws_secret_access_key=s\n", want: `pod by nothing with "web"`},
	{name: "web identity of a profile", profiles: "[default]\nrole_arn=pod\nweb_identity_token_file=@\n", want: `pod by nothing with "web"`},
	{name: "role of a web identity", environment: "AWS_PROFILE=role", profiles: "[profile pod]\nrole_arn=pod\nweb_identity_token_file=@\n[profile role]\nrole_arn=writer\nsource_profile=pod\n", want: `writer by pod by nothing with "web" with ""`},
	{name: "container", environment: "AWS_CONTAINER_CREDENTIALS_FULL_URI=$/container AWS_CONTAINER_AUTHORIZATION_TOKEN=plain", want: "container plain"},
	{name: "container with a token file", environment: "AWS_CONTAINER_CREDENTIALS_FULL_URI=$/container AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE=@", want: "container web"},
	{name: "machine", want: "machine"},
}

// setAWS sets the environment of AWS tools.
func setAWS(t *testing.T, s *awsServer, environment, profiles string) {
	t.Helper()
	for _, line := range os.Environ() {
		if name, _, _ := strings.Cut(line, "="); strings.HasPrefix(name, "AWS_") {
			t.Setenv(name, "")
		}
	}
	folder := t.TempDir()
	token, file := filepath.Join(folder, "token"), filepath.Join(folder, "config")
	place := strings.NewReplacer("$", s.URL, "@", token)
	for name, text := range map[string]string{token: "web", file: place.Replace(profiles)} {
		must.NoError(t, os.WriteFile(name, []byte(text), 0o600))
	}
	environment += " AWS_CONFIG_FILE=" + file + " AWS_SHARED_CREDENTIALS_FILE=" + file + ".none" +
		" AWS_REGION=eu-north-1 AWS_EC2_METADATA_SERVICE_ENDPOINT=$ AWS_ENDPOINT_URL_STS=$ AWS_ENDPOINT_URL_S3=$"
	for setting := range strings.FieldsSeq(place.Replace(environment)) {
		name, value, _ := strings.Cut(setting, "=")
		t.Setenv(name, value)
	}
}

func TestCredentialsOfAWSTools(t *testing.T) {
	for _, c := range credentialCases {
		t.Run(c.name, func(t *testing.T) {
			s := newAWSServer(t)
			setAWS(t, s, c.environment, c.profiles)
			store := openS3(t, objstore.S3Options{Bucket: "b", PathStyle: true})
			must.Error(t, check.Err(store.Get(t.Context(), "k", objstore.Whole)), "get of an absent object succeeded")
			if len(s.used) != 1 || s.used[0] != c.want {
				t.Errorf("requests to the bucket were signed by %q, want one by %q", s.used, c.want)
			}
			tools := must.Get(config.LoadDefaultConfig(t.Context()))(t)
			if keys, err := tools.Credentials.Retrieve(t.Context()); err != nil || keys.AccessKeyID != c.want {
				t.Errorf("the SDK's own chain finds %q (%v), want %q", keys.AccessKeyID, err, c.want)
			}
		})
	}
}

func TestCredentialsThatCannotWork(t *testing.T) {
	for _, c := range []struct{ name, environment, profiles, want string }{
		{"browser login", "AWS_PROFILE=dev", "[profile dev]\nsso_session=s\nsso_account_id=1\nsso_role_name=r\n[sso-session s]\nsso_region=r\nsso_start_url=u\n", "aws configure export-credentials --profile dev"},
		{"login session", "AWS_PROFILE=dev", "[profile dev]\nlogin_session=arn\n", "aws configure export-credentials --profile dev"},
		{"mfa", "AWS_PROFILE=role", "[profile keys]\naws_access_key_id=file\naws_secret_access_key=s\n[profile role]\nrole_arn=w\nsource_profile=keys\nmfa_serial=m\n", "mfa_serial"},
		{"absent profile", "AWS_PROFILE=nowhere", "", "nowhere"},
		{"unknown source", "", "[default]\nrole_arn=w\ncredential_source=Moon\n", `"Moon"`},
		{"web identity without role", "AWS_WEB_IDENTITY_TOKEN_FILE=@", "", "AWS_ROLE_ARN"},
		{"plain text to another machine", "AWS_CONTAINER_CREDENTIALS_FULL_URI=http://192.0.2.1/x", "", `host "192.0.2.1"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			setAWS(t, newAWSServer(t), c.environment, c.profiles)
			_, err := s3.Open(t.Context(), objstore.S3Options{Bucket: "b"})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("open: %v, want an error with %q", err, c.want)
			}
		})
	}
}

func TestRegionOfAWSTools(t *testing.T) {
	for _, c := range []struct{ name, environment, option, want string }{
		{"environment", "AWS_PROFILE=p", "", "eu-north-1"},
		{"profile", "AWS_PROFILE=p AWS_REGION=", "", "eu-south-2"},
		{"option", "AWS_PROFILE=p", "eu-west-3", "eu-west-3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newAWSServer(t)
			setAWS(t, s, "", "[profile p]\nregion=eu-south-2\naws_access_key_id=file\naws_secret_access_key=s\n")
			for setting := range strings.FieldsSeq(c.environment) {
				name, value, _ := strings.Cut(setting, "=")
				t.Setenv(name, value)
			}
			store := openS3(t, objstore.S3Options{Bucket: "b", PathStyle: true, Region: c.option})
			if _, err := store.Get(t.Context(), "k", objstore.Whole); err == nil || len(s.regions) != 1 || s.regions[0] != c.want {
				t.Errorf("requests were signed for %q (%v), want one for %q", s.regions, err, c.want)
			}
		})
	}
}
