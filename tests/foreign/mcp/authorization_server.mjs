// A real authorization server: oidc-provider with registration, PKCE, resource indicators and its own login pages.
// Arguments: its port, the file that hears of grants. ROTATE=1: refresh tokens are used once. STRIP=1: a refresh
// brings no refresh token (RFC 6749, 6 leaves that open).
import fs from 'node:fs'
import Provider from 'oidc-provider'

const [port, log] = process.argv.slice(2)
const note = (line) => fs.appendFileSync(log, `${line}\n`)
const provider = new Provider(`http://127.0.0.1:${port}`, {
  clients: [
    {
      client_id: 'resource-server',
      client_secret: 'a-secret-of-the-resource-server',
      grant_types: [],
      response_types: [],
      redirect_uris: [],
    },
    {
      client_id: 'known-client',
      client_secret: 'a-secret-of-the-known-client',
      grant_types: ['authorization_code', 'refresh_token'],
      redirect_uris: ['http://127.0.0.1:48123/callback'],
      token_endpoint_auth_method: 'client_secret_basic',
    },
  ],
  features: {
    devInteractions: { enabled: true },
    introspection: { enabled: true, allowedPolicy: () => true },
    registration: { enabled: true },
    resourceIndicators: {
      enabled: true,
      useGrantedResource: () => true,
      getResourceServerInfo: () => ({ scope: 'tools', accessTokenTTL: 3600, accessTokenFormat: 'opaque' }),
    },
  },
  findAccount: (_, id) => ({ accountId: id, claims: () => ({ sub: id }) }),
  issueRefreshToken: () => true,
  pkce: { required: () => true },
  rotateRefreshToken: process.env.ROTATE === '1',
  scopes: ['openid', 'offline_access', 'tools'],
})
provider.use(async (ctx, next) => {
  await next()
  if (ctx.oidc?.route === 'token' && process.env.STRIP === '1' && ctx.oidc.params?.grant_type === 'refresh_token') {
    delete ctx.body.refresh_token
  }
})
provider.on('grant.success', (ctx) => note(ctx.oidc.params.grant_type))
provider.on('grant.error', (ctx, error) => note(`refused ${ctx.oidc?.params?.grant_type} ${error.message}`))
provider.listen(Number(port), '127.0.0.1')
