package s3

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"os"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/credentials/ec2rolecreds"
	"github.com/aws/aws-sdk-go-v2/credentials/endpointcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/processcreds"
	"github.com/aws/aws-sdk-go-v2/credentials/stscreds"
	"github.com/aws/aws-sdk-go-v2/feature/ec2/imds"
	"github.com/aws/aws-sdk-go-v2/service/sts"

	"github.com/sebbroker/seb/internal/engine/objstore"
)

// loadSettings returns the region and the credentials of o, or those that AWS tools use.
func loadSettings(ctx context.Context, o objstore.S3Options) (aws.Config, error) {
	if o.Region == "" && o.Endpoint != "" {
		o.Region = "us-east-1"
	}
	var keys aws.CredentialsProvider
	if o.AccessKey != "" {
		keys = credentials.NewStaticCredentialsProvider(o.AccessKey, o.SecretKey, o.SessionToken)
		if o.Region != "" { // the environment is not needed
			return aws.Config{Region: o.Region, Credentials: keys}, nil
		}
	}
	e, err := loadEnvironment(ctx, o.Region)
	if err != nil {
		return aws.Config{}, err
	}
	if keys == nil {
		if keys, err = e.credentials(); err != nil {
			return aws.Config{}, err
		}
	}
	e.config.Credentials = aws.NewCredentialsCache(keys)
	return e.config, nil
}

// awsEnvironment is the configuration of AWS tools: environment variables, the profile in ~/.aws,
// and the role of the container or machine. Its methods replace config.LoadDefaultConfig, which links
// the clients of the browser logins (SSO, aws login).
type awsEnvironment struct {
	variables config.EnvConfig
	profile   config.SharedConfig
	config    aws.Config // for STS and the machine's metadata service; without credentials
}

func loadEnvironment(ctx context.Context, region string) (e awsEnvironment, err error) {
	if e.variables, err = config.NewEnvConfig(); err != nil {
		return e, err
	}
	e.profile, err = config.LoadSharedConfigProfile(ctx, cmp.Or(e.variables.SharedConfigProfile, "default"), func(o *config.LoadSharedConfigOptions) {
		if name := e.variables.SharedConfigFile; name != "" {
			o.ConfigFiles = []string{name}
		}
		if name := e.variables.SharedCredentialsFile; name != "" {
			o.CredentialsFiles = []string{name}
		}
	})
	_, absent := errors.AsType[config.SharedConfigProfileNotExistError](err)
	if err != nil && (!absent || e.variables.SharedConfigProfile != "") {
		return e, err
	}
	e.config = aws.Config{
		Region:        cmp.Or(region, e.variables.Region, e.profile.Region),
		ConfigSources: []any{e.variables, e.profile},
	}
	if endpoint := cmp.Or(e.variables.BaseEndpoint, e.profile.BaseEndpoint); endpoint != "" {
		e.config.BaseEndpoint = &endpoint
	}
	return e, nil
}

func (e *awsEnvironment) credentials() (aws.CredentialsProvider, error) {
	switch v := e.variables; {
	case v.Credentials.HasKeys():
		return credentials.StaticCredentialsProvider{Value: v.Credentials}, nil
	case v.WebIdentityTokenFilePath != "":
		return e.webIdentity(v.WebIdentityTokenFilePath, v.RoleARN, v.RoleSessionName)
	}
	return e.ofProfile(e.profile)
}

// ofProfile returns the credentials of a profile. If it has a role, the credentials assume it.
func (e *awsEnvironment) ofProfile(p config.SharedConfig) (aws.CredentialsProvider, error) {
	if p.Source == nil && !p.Credentials.HasKeys() && p.CredentialSource == "" && p.WebIdentityTokenFile != "" {
		return e.webIdentity(p.WebIdentityTokenFile, p.RoleARN, p.RoleSessionName)
	}
	keys, err := e.source(p)
	if err != nil || p.RoleARN == "" {
		return keys, err
	}
	if p.MFASerial != "" {
		return nil, fmt.Errorf("profile %q: mfa_serial is not supported, because no one is there to type a code", p.Profile)
	}
	c := e.config
	c.Credentials = aws.NewCredentialsCache(keys)
	return stscreds.NewAssumeRoleProvider(sts.NewFromConfig(c), p.RoleARN, func(o *stscreds.AssumeRoleOptions) {
		o.RoleSessionName = p.RoleSessionName
		if p.RoleDurationSeconds != nil {
			o.Duration = *p.RoleDurationSeconds
		}
		if p.ExternalID != "" {
			o.ExternalID = &p.ExternalID
		}
	}), nil
}

// source returns the credentials of a profile before it assumes a role.
func (e *awsEnvironment) source(p config.SharedConfig) (aws.CredentialsProvider, error) {
	container := e.variables.ContainerCredentialsRelativePath != "" || e.variables.ContainerCredentialsEndpoint != ""
	switch {
	case p.Source != nil:
		return e.ofProfile(*p.Source)
	case p.Credentials.HasKeys():
		return credentials.StaticCredentialsProvider{Value: p.Credentials}, nil
	case p.CredentialSource == "Environment":
		return credentials.StaticCredentialsProvider{Value: e.variables.Credentials}, nil
	case p.CredentialSource == "EcsContainer":
		return e.container()
	case p.CredentialSource == "Ec2InstanceMetadata":
	case p.CredentialSource != "":
		return nil, fmt.Errorf("profile %q: credential_source %q: want Environment, EcsContainer or Ec2InstanceMetadata", p.Profile, p.CredentialSource)
	case p.SSOSessionName != "" || p.SSOStartURL != "" || p.LoginSession != "":
		return nil, fmt.Errorf("profile %q: a login with a browser is not supported: "+
			"add a profile with credential_process = aws configure export-credentials --profile %[1]s, and set AWS_PROFILE to it", p.Profile)
	case p.CredentialProcess != "":
		return processcreds.NewProvider(p.CredentialProcess), nil
	case container:
		return e.container()
	}
	return ec2rolecreds.New(func(o *ec2rolecreds.Options) { o.Client = imds.NewFromConfig(e.config) }), nil
}

func (e *awsEnvironment) webIdentity(tokenFile, role, session string) (aws.CredentialsProvider, error) {
	if role == "" {
		return nil, errors.New("web identity token file: no role: set AWS_ROLE_ARN, or role_arn of the profile")
	}
	return stscreds.NewWebIdentityRoleProvider(sts.NewFromConfig(e.config), role, stscreds.IdentityTokenFile(tokenFile),
		func(o *stscreds.WebIdentityRoleOptions) { o.RoleSessionName = session }), nil
}

// container returns the role of a container in ECS or EKS.
func (e *awsEnvironment) container() (aws.CredentialsProvider, error) {
	address := e.variables.ContainerCredentialsEndpoint
	if path := e.variables.ContainerCredentialsRelativePath; path != "" {
		address = "http://169.254.170.2" + path
	}
	if err := validContainerEndpoint(address); err != nil {
		return nil, fmt.Errorf("AWS_CONTAINER_CREDENTIALS_FULL_URI: %w", err)
	}
	provider := endpointcreds.New(address, func(o *endpointcreds.Options) {
		o.AuthorizationToken = e.variables.ContainerAuthorizationToken
		if name := os.Getenv("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE"); name != "" {
			o.AuthorizationTokenProvider = endpointcreds.TokenProviderFunc(func() (string, error) {
				token, err := os.ReadFile(name)
				return string(token), err
			})
		}
	})
	return aws.NewCredentialsCache(provider, func(o *aws.CredentialsCacheOptions) { o.ExpiryWindow = 5 * time.Minute }), nil
}

// validContainerEndpoint refuses to send the authorization token in plain text to another machine:
// the endpoints of ECS and EKS are link-local.
func validContainerEndpoint(address string) error {
	u, err := url.Parse(address)
	if err != nil {
		return err
	}
	if u.Scheme == "https" && u.Host != "" {
		return nil
	}
	ips, err := net.LookupIP(u.Hostname())
	if err != nil {
		return err
	}
	for _, ip := range ips {
		if s := ip.String(); !ip.IsLoopback() && s != "169.254.170.2" && s != "169.254.170.23" && s != "fd00:ec2::23" {
			return fmt.Errorf("host %q: want https, or an address of this machine, ECS or EKS", u.Host)
		}
	}
	return nil
}
