"""Asks a server for pictures and speech with OpenAI's own SDK, and prints what it understood as JSON."""

import base64
import json
import sys

import openai

url, key, picture = sys.argv[1:]
client = openai.OpenAI(base_url=url, api_key=key, max_retries=0)
made = client.images.generate(model="gpt-image-1", prompt="a cat", size="1024x1024")
with open(picture, "rb") as file:
    edited = client.images.edit(model="gpt-image-1", prompt="a hat", image=[file], size="1024x1024")
    file.seek(0)
    heard = client.audio.transcriptions.create(model="gpt-4o-transcribe", file=file, response_format="json")
spoken = client.audio.speech.create(
    model="gpt-4o-mini-tts", voice="alloy", input="Hello", response_format="opus"
)
chat = client.chat.completions.create(
    model="painter",
    messages=[{"role": "user", "content": "a cat"}],
    extra_body={"modalities": ["image", "text"]},
)
try:
    openai.OpenAI(base_url=url, api_key="wrong", max_retries=0).images.generate(prompt="x")
    refused = ""
except openai.AuthenticationError as error:
    refused = error.code
print(
    json.dumps(
        {
            "made": len(base64.b64decode(made.data[0].b64_json)),
            "usage": [made.usage.input_tokens, made.usage.output_tokens],
            "edited": len(base64.b64decode(edited.data[0].b64_json)),
            "heard": heard.text,
            "heard_tokens": [heard.usage.input_tokens, heard.usage.output_tokens],
            "spoken": spoken.content[:4].decode(),
            "chat": chat.choices[0].message.images[0]["image_url"]["url"][:22],
            "refused": refused,
        }
    )
)
