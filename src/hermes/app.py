"""The composition root: one gateway on one home, put together from settings, store, agents and platforms.

Its life: lock the home → read the settings → open the store → start the gateway → connect the platforms, each
by a host of its own → run until a signal → drain: turns reach a record, lanes empty, hosts disconnect, the
store closes. What it is doing stands in `gateway_state.json` beside `gateway.pid`, for `hermes status`.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import json
import logging
import os
import signal
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from logging.handlers import RotatingFileHandler
from pathlib import Path
from typing import Any

from hermes import plugins
from hermes.agent.loop import AgentLoop, LoopLimits
from hermes.control.gateway import STOP_SECONDS, Gateway, Parts
from hermes.control.runtime import Runtime
from hermes.domain.capabilities import Capabilities, Manifest
from hermes.domain.clock import Clock, SystemClock
from hermes.domain.errors import UserError
from hermes.domain.ids import MAIN_AGENT, AgentId
from hermes.domain.ports import ModelPiece, ModelRequest, Platform, Provider, Store
from hermes.domain.settings import PlatformSettings, Profile, Secret, Settings
from hermes.domain.tool import Tool
from hermes.entry.host import Account, Host, HostState
from hermes.state.profiles import agent_home, prepare_home
from hermes.state.secrets import RedactingFilter, Secrets
from hermes.state.settings import Loaded, load_settings
from hermes.state.sqlite import SqliteStore
from hermes.state.textfile import replace_text

log = logging.getLogger("hermes.app")

EXIT_RESTART = 75
"""Kept for "start me again": a service does so."""
EXIT_SETTINGS = 78
"""Kept for "an operator must change something first": a service leaves us down."""

DATABASE_FILE = "state.db"
LOCK_FILE = "gateway.lock"
PID_FILE = "gateway.pid"
STATE_FILE = "gateway_state.json"
LOG_FILE = "logs/gateway.log"
GATEWAY = "gateway"
NO_MODEL = "No model is configured."
_LOCK_PATIENCE = 3.0
_PROBLEMS_SHOWN = 5
_LOG_BYTES = 5_000_000
_LOG_FILES = 3
