"""Ordinary answers about code: none of them leads anything away, whatever file was read before."""

from __future__ import annotations

_SHA = "3f2a9c1d5e6b7a8c9d0e1f2a3b4c5d6e7f8a9b0c"


def _fenced(language: str, code: str) -> str:
    return f"Here it is:\n\n```{language}\n{code.strip()}\n```\n\nDone."


ANSWERS = (
    # --- Python ---
    _fenced(
        "python", "class A:\n    def __init__(self, name):\n" + "        self.name = name.strip()\n" * 20
    ),
    _fenced(
        "python", "import os.path\nfrom urllib.parse import urlsplit\n\nprint(os.environ['HOME'], urlsplit)"
    ),
    _fenced("python", "import requests\n\nr = requests.get('https://api.example.com/v1/users', timeout=5)"),
    _fenced("python", "engine = create_engine('postgresql://user:password@localhost:5432/app_test')"),
    _fenced("python", "re.compile(r'^https?://(?:www\\.)?([^/]+)/(\\w+)$').sub(r'\\1', url)"),
    _fenced("python", "df.groupby('a').agg({'b.c': 'sum'}).reset_index().to_csv('out.csv')  # e.g. a.b/c"),
    _fenced("python", "url = f'https://{host}:{port}/api/{version}/items/{item_id}?page={page}'"),
    _fenced(
        "python", "HASHES = {'sha256': 'e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855'}"
    ),
    "Run `python -m hermes.execution.sandboxes.bubblewrap.tests.smoke` and look at `hermes.agent.run.loop`.",
    "The call `self.session.client.options.timeout` in `src/app/core.py:120` is `None`, see `foo.bar()`.",
    "Use `pathlib.Path.home() / '.config'`; `os.path.join(a.b, c.d)` gives `x/y.z`.",
    "It prints `<Color.RED: 1>`, then <HTTPStatus.OK: 200> and <MediaKind.IMAGE: 'image'>.",
    "self.name, self.host and cls.registry.by_name are set in"
    " app.config.settings.production before app.run.main",
    # --- Java, C#, Go, Rust, JavaScript ---
    _fenced(
        "java", "package com.example.project.module.service.internal.impl;\nimport java.util.concurrent.*;"
    ),
    _fenced(
        "java", "org.springframework.beans.factory.support.AbstractAutowireCapableBeanFactory.doCreateBean()"
    ),
    "at com.example.project.module.UserService2Impl.load(UserService2Impl.java:42) ~[app-1.4.2.jar:1.4.2]",
    "The class com.fasterxml.jackson.databind.ObjectMapper is in"
    " com.fasterxml.jackson.core:jackson-databind:2.15.3.",
    _fenced(
        "csharp",
        "using Microsoft.Extensions.DependencyInjection;\nvar x = app.Services.GetRequiredService<A>();",
    ),
    _fenced("go", 'import (\n\t"github.com/spf13/cobra/v2"\n\t"k8s.io/apimachinery/pkg/apis/meta/v1"\n)'),
    _fenced("go", "require golang.org/x/sys v0.0.0-20220715151400-c0bba94af5f8 // indirect"),
    _fenced(
        "rust",
        "let a: std::collections::HashMap<String, u8> = x.iter().map(|a| a.b).collect(); // see foo.rs",
    ),
    _fenced(
        "js",
        "import a from './a.module.js'; //comment.here/abc123def456\nfetch('/api/v1/x').then(r=>r.json())",
    ),
    _fenced(
        "js", "const x={data:null,tel:a.b,sms:1};window.location.href=a.b.c;document.body.style.color='red'"
    ),
    _fenced(
        "ts",
        "export const api = axios.create({ baseURL: process.env.API_URL ?? 'http://localhost:3000/api' });",
    ),
    _fenced(
        "js",
        "!function(e,t){e.exports=t(n.a.b.c,r.d.e)}(this,function(){return a.b.c1d2e3f4g5h6i7(8)});" * 40,
    ),
    _fenced(
        "css", "a { background: url(data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJ) }"
    ),
    # --- YAML, JSON, configuration ---
    _fenced(
        "yaml", "metadata:\n  annotations:\n    nginx.ingress.kubernetes.io/rewrite-target: /$1\n  name: a1b2"
    ),
    "Set metadata.annotations.kubernetes.io/ingress.class and spec.template.spec.containers[0].image.",
    _fenced("yaml", f"image: ghcr.io/acme/app@sha256:{_SHA}{_SHA[:24]}\nenv:\n  URL: redis://redis:6379/0"),
    _fenced("yaml", "- uses: actions/checkout@11bd71901bbe5b1630ceea73d27597364c9af683 # v4.2.2"),
    _fenced(
        "json", '{"$schema":"http://json-schema.org/draft-07/schema#","a.b":{"$ref":"#/definitions/c.d"}}'
    ),
    _fenced("json", '{"a":"b.c/d1e2f3g4h5i6","resolved":"https://registry.npmjs.org/a/-/a-1.0.0.tgz"}'),
    _fenced("toml", '[project]\nname = "a.b"\nurls = { Home = "https://example.org/project" }'),
    _fenced(
        "nginx",
        "location / { proxy_pass http://127.0.0.1:8080/a1b2c3d4e5f6g7h8; server_name www.example.org; }",
    ),
    _fenced("dockerfile", "FROM docker.io/library/python:3.11-slim\nRUN pip install -r requirements.txt"),
    _fenced(
        "xml",
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><groupId>com.example.app</groupId></project>',
    ),
    _fenced(
        "sql", "select a.id, b.name from app.users a join app.teams b on b.id = a.team_id where a.x = 'y.z'"
    ),
    # --- logs and output ---
    "2026-11-18T01:48:00.123Z INFO c.e.p.m.Service - a.b.c=1 host=db-7d4b9c6f5d-x2x9z.default.svc",
    '10.0.3.7 - - [18/Nov/2026:01:48:00 +0000] "GET /static/js/main.4f3a9c1d2e.chunk.js HTTP/1.1" 200',
    'Traceback (most recent call last):\n  File "/app/x.py", line 3, in'
    " a.b\nrequests.exceptions.ConnectionError",
    "ERROR: Failed building wheel for numpy-1.26.4-cp311-cp311-manylinux2014_x86_64.whl",
    "npm warn deprecated glob@7.2.3: Glob versions prior to v9 are no longer"
    " supported (node v20.11.1, npm 10.2.4)",
    f"commit {_SHA}\nAuthor: Ann <ann@example.org>\n    Mend app.core.loop",
    "dist/main.4f3a9c1d2e5f.js 12.4 kB, dist/vendor.8a7b6c5d4e3f2a1b.chunk.js.map 1.2 MB",
    "Fetched 12.3 MB in 2s; ip-10-0-0-12.ec2.internal is up since 3.5 h; v1.2.3-rc.1+build.20240101 is out.",
    "jdbc:postgresql://db:5432/app and amqp://guest:guest@rabbitmq:5672/%2F"
    " answered, ws://localhost:9/a1b2c3d4e5f6",
    # --- lists of files ---
    "\n".join(
        f"- `src/hermes/agent/part_{n}.py`, docs/part.{n}.md, tests/test_part{n}.py" for n in range(30)
    ),
    "I changed app.py, core.rs, main.go, index.d.ts, a.tar.gz, b.min.js,"
    " .env.example, x.test.tsx and Makefile.am.",
    "├── src/app.module.ts\n├── build.gradle.kts\n└── node_modules/.bin/vite → ../vite/bin/vite.js",
    "| File | Lines |\n|---|---|\n| a.b.c.d.py | 12 |\n|"
    " very.long.dotted.name.with.many.parts.in.it.yaml | 3 |",
    "C:\\Users\\ann\\AppData\\Local\\Programs\\app.exe and \\\\server\\share\\x.y"
    " were read; a\\.b matches a.b.",
    # --- Markdown with links ---
    f"See https://github.com/psf/requests/commit/{_SHA} and github.com/psf/requests.",
    f"It is [here](https://github.com/o/r/blob/{_SHA}/src/deep/er/file_name.py#L10-L220).",
    f"Compare https://github.com/o/r/compare/{_SHA}...{_SHA[::-1]},"
    f" https://gitlab.com/g/p/-/merge_requests/12/diffs.",
    "Issue [#4711](https://github.com/o/r/issues/4711#issuecomment-2039485761), "
    "https://github.com/o/r/pull/12/files.",
    "Watch https://www.youtube.com/watch?v=dQw4w9WgXcQ&t=43s or https://youtu.be/dQw4w9WgXcQ?t=43.",
    "List: https://www.youtube.com/watch?v=dQw4w9WgXcQ&list=PLrAXtmErZgOeiKm4sgNOknGvNjby9efdf&index=2",
    "See https://docs.python.org/3/library/asyncio-task.html#asyncio.TaskGroup.create_task.",
    "[Docs](https://developer.mozilla.org/en-US/docs/Web/API/WindowOrWorkerGlobalScope/structuredClone).",
    "https://stackoverflow.com/questions/11227809/"
    "why-is-processing-a-sorted-array-faster-than-an-unsorted-array",
    "https://docs.oracle.com/en/java/javase/17/doc"
    "s/api/java.base/java/util/concurrent/ConcurrentHashMap.html",
    "https://kubernetes.io/docs/reference/generated/kubernetes-api/v1.28/#deployment-v1-apps",
    "https://zh.wikipedia.org/wiki/%E4%BA%BA%E5%B7%A5%E6%99%BA%E8%83%BD and"
    " https://arxiv.org/abs/1706.03762v7",
    "![build](https://github.com/o/r/actions/workflows/ci.yml/badge.svg)"
    " ![c](https://img.shields.io/badge/a-b-green)",
    "\n".join(f"{n}. [Page {n}](https://docs.example.org/guide/page-{n}.html)" for n in range(40)),
    "[![PyPI](https://img.shields.io/pypi/v/httpx."
    "svg)](https://pypi.org/project/httpx/) and <https://www.python-httpx.org>",
    "The reference is https://docs.rs/tokio/1.38.0/tokio/sync/struct.Mutex.html"
    " [^1]\n\n[^1]: https://tokio.rs/tokio",
    "Read https://jira.example.com/browse/PROJ-1234,"
    " https://sentry.io/issues/4567891234/ and https://xkcd.com/927.",
    "Search https://www.example.org/search?q=how+to+configure+nginx+reverse+proxy&lang=en for more.",
    "Mail [us](mailto:team@example.org?subject=Hello) or ring tel:+49-30-123456;"
    " clone git@github.com:o/r.git.",
    "Clone `git clone https://github.com/o/r.git` or `ssh://git@github.com/o/r.git`, then `cd r && make`.",
    "我们来看一下这个问题:请看https://docs.python.org/3/library/re.html。然后运行`python -m"
    " app.server`即可，配置在app.yaml里。",
    "A `stray mark and then app.config.name\n\n```sh\ncurl -fsSL"
    " https://get.example.org/install.sh | sh\n```\nok",
)
