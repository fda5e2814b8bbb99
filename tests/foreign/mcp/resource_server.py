"""An MCP server over HTTP that lets nobody in without a token of the authorization server: `PORT ISSUER`."""

import sys

import httpx2
from mcp.server.auth.provider import AccessToken
from mcp.server.auth.settings import AuthSettings
from mcp.server.mcpserver import MCPServer

port, issuer = int(sys.argv[1]), sys.argv[2]
place = f"http://127.0.0.1:{port}"


class Introspection:
    async def verify_token(self, token: str) -> AccessToken | None:
        async with httpx2.AsyncClient(auth=("resource-server", "a-secret-of-the-resource-server")) as client:
            told = (await client.post(f"{issuer}/token/introspection", data={"token": token})).json()
        if not told.get("active"):
            return None
        scopes = told.get("scope", "").split()
        return AccessToken(
            token=token, client_id=told["client_id"], scopes=scopes, expires_at=told.get("exp")
        )


settings = AuthSettings(issuer_url=issuer, resource_server_url=f"{place}/mcp", required_scopes=["tools"])
server = MCPServer("closed", token_verifier=Introspection(), auth=settings)


@server.tool()
def whoami() -> str:
    """Tell who is logged in."""
    return "somebody with a token"


server.run("streamable-http", port=port)
